"""Steps as native vector code, made with LLVM through llvmlite; nothing here is imported before it is needed."""
