; The launch of a kernel inside XLA: one typed FFI handler for all kernels.
;
; Operands and results are the kernel's arrays, in its order. The attributes (XLA sorts them by name) are `name`, that of
; the kernel, `ptx`, its text, and `sizes`, whole numbers: streams, steps, every, threads of a block. The driver
; loads a module once for each context; a context is a device. Nothing here waits for the card. What fails becomes an
; error of XLA with the driver's own words.

; XLA's structures (xla/ffi/api/c_api.h): the fields used here lie where they lie in all versions from 0.1 to 0.3
%Span = type { ptr, i64 }
%Array = type { i32, i64, ptr }
%List = type { i64, ptr, i64, ptr, ptr }                    ; size, extension, count, types, items
%Attributes = type { i64, ptr, i64, ptr, ptr, ptr }         ; size, extension, count, types, names, items
%Frame = type { i64, ptr, ptr, ptr, i32, %List, %List, %Attributes }
%Buffer = type { i64, ptr, i32, ptr, i64, ptr }             ; size, extension, dtype, data, rank, dims
%Api = type { i64, ptr, { i64, ptr, i32, i32 }, ptr, ptr, ptr, ptr, ptr, ptr } ; error_create is 4, stream_get is 8
%StreamGet = type { i64, ptr, ptr, ptr }                    ; size, extension, ctx, stream
%ErrorCreate = type { i64, ptr, ptr, i32 }                  ; size, extension, message, code
%Query = type { i64, i32, ptr, ptr }                        ; size, type, next, metadata
%Metadata = type { i64, { i64, ptr, i32, i32 }, i32 }       ; size, version, traits
%Kernel = type { ptr, ptr, ptr, i64 }                       ; next, context, function, length of the name, which follows

@kernels = internal global ptr null
@lock = internal global [64 x i8] zeroinitializer, align 16 ; a mutex of POSIX threads, not locked
@driver = internal global [7 x ptr] zeroinitializer
@symbols = internal constant [7 x ptr] [ptr @s0, ptr @s1, ptr @s2, ptr @s3, ptr @s4, ptr @s5, ptr @s6]
@s0 = internal constant [15 x i8] c"cuStreamGetCtx\00"
@s1 = internal constant [20 x i8] c"cuCtxPushCurrent_v2\00"
@s2 = internal constant [19 x i8] c"cuCtxPopCurrent_v2\00"
@s3 = internal constant [19 x i8] c"cuModuleLoadDataEx\00"
@s4 = internal constant [20 x i8] c"cuModuleGetFunction\00"
@s5 = internal constant [15 x i8] c"cuLaunchKernel\00"
@s6 = internal constant [17 x i8] c"cuGetErrorString\00"
@library = internal constant [13 x i8] c"libcuda.so.1\00"
@unknown = internal constant [17 x i8] c"an unknown error\00"
@no_driver = internal constant [42 x i8] c"icvi_jax: the CUDA driver is not here: %s\00"
@no_symbol = internal constant [50 x i8] c"icvi_jax: this CUDA driver is too old: it has no \00"
@no_form = internal constant [84 x i8] c"icvi_jax: this call of icvi_cuda_scan has other attributes than name, ptx and sizes\00"
@refused = internal constant [36 x i8] c"icvi_jax: %s: %s (CUDA error %d)\0A%s\00"
@empty = internal constant [1 x i8] c"\00"

declare ptr @dlopen(ptr, i32)
declare ptr @dlsym(ptr, ptr)
declare ptr @dlerror()
declare ptr @malloc(i64)
declare void @free(ptr)
declare ptr @memcpy(ptr, ptr, i64)
declare i32 @memcmp(ptr, ptr, i64)
declare i32 @strcmp(ptr, ptr)
declare i32 @snprintf(ptr, i64, ptr, ...)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)

; The driver's functions, found once. 0, or 1 with the reason in %why (16,384 bytes).
define internal i32 @open(ptr %why) {
enter:
  %end = getelementptr ptr, ptr @driver, i64 6
  %known = load atomic ptr, ptr %end acquire, align 8
  %open = icmp ne ptr %known, null
  br i1 %open, label %done, label %search
search:
  %library = call ptr @dlopen(ptr @library, i32 2)
  %missing = icmp eq ptr %library, null
  br i1 %missing, label %none, label %each
none:
  %said = call ptr @dlerror()
  call i32 (ptr, i64, ptr, ...) @snprintf(ptr %why, i64 16384, ptr @no_driver, ptr %said)
  ret i32 1
each:
  %i = phi i64 [0, %search], [%next, %found]
  %symbol.at = getelementptr ptr, ptr @symbols, i64 %i
  %symbol = load ptr, ptr %symbol.at
  %function = call ptr @dlsym(ptr %library, ptr %symbol)
  %absent = icmp eq ptr %function, null
  br i1 %absent, label %old, label %found
old:
  %n = call i32 (ptr, i64, ptr, ...) @snprintf(ptr %why, i64 16384, ptr @no_symbol)
  %long = sext i32 %n to i64
  %rest = getelementptr i8, ptr %why, i64 %long
  call i32 (ptr, i64, ptr, ...) @snprintf(ptr %rest, i64 1024, ptr %symbol)
  ret i32 1
found:
  %slot = getelementptr ptr, ptr @driver, i64 %i
  store atomic ptr %function, ptr %slot release, align 8
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, 7
  br i1 %more, label %each, label %done
done:
  ret i32 0
}

define internal ptr @of_driver(i64 %i) alwaysinline {
  %at = getelementptr ptr, ptr @driver, i64 %i
  %function = load ptr, ptr %at
  ret ptr %function
}

; What the driver answered to `%what`, in words, where it is not 0.
define internal i32 @check(i32 %code, i64 %what, ptr %log, ptr %why) {
enter:
  %well = icmp eq i32 %code, 0
  br i1 %well, label %done, label %bad
bad:
  %words = alloca ptr
  store ptr @unknown, ptr %words
  %ask = call ptr @of_driver(i64 6)
  %known = call i32 %ask(i32 %code, ptr %words)
  %text = load ptr, ptr %words
  %none = icmp eq ptr %text, null
  %said = select i1 %none, ptr @unknown, ptr %text
  %symbol.at = getelementptr ptr, ptr @symbols, i64 %what
  %symbol = load ptr, ptr %symbol.at
  call i32 (ptr, i64, ptr, ...) @snprintf(ptr %why, i64 16384, ptr @refused, ptr %symbol, ptr %said, i32 %code, ptr %log)
  br label %done
done:
  ret i32 %code
}

; A kernel that this context has loaded, or null.
define internal ptr @find(ptr %context, ptr %name, i64 %length) {
enter:
  %first = load atomic ptr, ptr @kernels acquire, align 8
  br label %look
look:
  %kernel = phi ptr [%first, %enter], [%next, %other]
  %over = icmp eq ptr %kernel, null
  br i1 %over, label %none, label %compare
compare:
  %its.context.at = getelementptr %Kernel, ptr %kernel, i32 0, i32 1
  %its.context = load ptr, ptr %its.context.at
  %here = icmp eq ptr %its.context, %context
  %its.length.at = getelementptr %Kernel, ptr %kernel, i32 0, i32 3
  %its.length = load i64, ptr %its.length.at
  %as.long = icmp eq i64 %its.length, %length
  %maybe = and i1 %here, %as.long
  br i1 %maybe, label %letters, label %other
letters:
  %its.name = getelementptr %Kernel, ptr %kernel, i32 1
  %differs = call i32 @memcmp(ptr %its.name, ptr %name, i64 %length)
  %same = icmp eq i32 %differs, 0
  br i1 %same, label %found, label %other
other:
  %next = load ptr, ptr %kernel
  br label %look
found:
  %function.at = getelementptr %Kernel, ptr %kernel, i32 0, i32 2
  %function = load ptr, ptr %function.at
  ret ptr %function
none:
  ret ptr null
}

; A kernel of the current context: found, or loaded now. Null with the reason in %why where the driver refuses.
define internal ptr @load(ptr %context, ptr %name, i64 %length, ptr %ptx, i64 %bytes, ptr %why) {
enter:
  %options = alloca [2 x i32], align 8
  %values = alloca [2 x ptr], align 8
  %log = alloca [8192 x i8], align 8
  %module = alloca ptr
  %function = alloca ptr
  call i32 @pthread_mutex_lock(ptr @lock)
  %known = call ptr @find(ptr %context, ptr %name, i64 %length) ; another thread may have been faster
  %there = icmp ne ptr %known, null
  br i1 %there, label %done, label %new
new:
  %room = add i64 %bytes, 1
  %text = call ptr @malloc(i64 %room)
  call ptr @memcpy(ptr %text, ptr %ptx, i64 %bytes)
  %text.end = getelementptr i8, ptr %text, i64 %bytes
  store i8 0, ptr %text.end
  store i8 0, ptr %log
  store i32 5, ptr %options                                  ; CU_JIT_ERROR_LOG_BUFFER
  %second = getelementptr i32, ptr %options, i64 1
  store i32 6, ptr %second                                   ; CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES
  store ptr %log, ptr %values
  %size.at = getelementptr ptr, ptr %values, i64 1
  store i64 8192, ptr %size.at
  %load_module = call ptr @of_driver(i64 3)
  %loaded = call i32 %load_module(ptr %module, ptr %text, i32 2, ptr %options, ptr %values)
  call void @free(ptr %text)
  %last = getelementptr i8, ptr %log, i64 8191
  store i8 0, ptr %last
  %bad.load = call i32 @check(i32 %loaded, i64 3, ptr %log, ptr %why)
  %can = icmp eq i32 %bad.load, 0
  br i1 %can, label %get, label %done
get:
  %head = ptrtoint ptr getelementptr (%Kernel, ptr null, i32 1) to i64
  %named = add i64 %head, %length
  %all = add i64 %named, 1
  %kernel = call ptr @malloc(i64 %all)
  %its.name = getelementptr %Kernel, ptr %kernel, i32 1
  call ptr @memcpy(ptr %its.name, ptr %name, i64 %length)
  %name.end = getelementptr i8, ptr %its.name, i64 %length
  store i8 0, ptr %name.end
  %of = load ptr, ptr %module
  %get_function = call ptr @of_driver(i64 4)
  %got = call i32 %get_function(ptr %function, ptr %of, ptr %its.name)
  %bad.get = call i32 @check(i32 %got, i64 4, ptr @empty, ptr %why)
  %has = icmp eq i32 %bad.get, 0
  br i1 %has, label %keep, label %lost
lost:
  call void @free(ptr %kernel)
  br label %done
keep:
  %made = load ptr, ptr %function
  %before = load ptr, ptr @kernels
  store ptr %before, ptr %kernel
  %context.at = getelementptr %Kernel, ptr %kernel, i32 0, i32 1
  store ptr %context, ptr %context.at
  %function.at = getelementptr %Kernel, ptr %kernel, i32 0, i32 2
  store ptr %made, ptr %function.at
  %length.at = getelementptr %Kernel, ptr %kernel, i32 0, i32 3
  store i64 %length, ptr %length.at
  store atomic ptr %kernel, ptr @kernels release, align 8
  br label %done
done:
  %result = phi ptr [%known, %enter], [null, %new], [null, %lost], [%made, %keep]
  call i32 @pthread_mutex_unlock(ptr @lock)
  ret ptr %result
}

; The data of `n` buffers as the driver wants arguments: %to has the address of each value, %values has the values.
define internal void @point(ptr %buffers, i64 %n, ptr %values, ptr %to) {
enter:
  %some = icmp sgt i64 %n, 0
  br i1 %some, label %each, label %done
each:
  %i = phi i64 [0, %enter], [%next, %each]
  %buffer.at = getelementptr ptr, ptr %buffers, i64 %i
  %buffer = load ptr, ptr %buffer.at
  %data.at = getelementptr %Buffer, ptr %buffer, i32 0, i32 3
  %data = load ptr, ptr %data.at
  %value = getelementptr ptr, ptr %values, i64 %i
  store ptr %data, ptr %value
  %slot = getelementptr ptr, ptr %to, i64 %i
  store ptr %value, ptr %slot
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %each, label %done
done:
  ret void
}

; Launch a kernel on a stream of the current context.
define internal i32 @launch(ptr %function, ptr %stream, ptr %frame, ptr %sizes, ptr %why) {
enter:
  %args.n.at = getelementptr %Frame, ptr %frame, i32 0, i32 5, i32 2
  %args.at = getelementptr %Frame, ptr %frame, i32 0, i32 5, i32 4
  %rets.n.at = getelementptr %Frame, ptr %frame, i32 0, i32 6, i32 2
  %rets.at = getelementptr %Frame, ptr %frame, i32 0, i32 6, i32 4
  %args.n = load i64, ptr %args.n.at
  %args = load ptr, ptr %args.at
  %rets.n = load i64, ptr %rets.n.at
  %rets = load ptr, ptr %rets.at
  %both = add i64 %args.n, %rets.n
  %all = add i64 %both, 3
  %values = alloca ptr, i64 %all, align 8
  %to = alloca ptr, i64 %all, align 8
  call void @point(ptr %args, i64 %args.n, ptr %values, ptr %to)
  %ret.values = getelementptr ptr, ptr %values, i64 %args.n
  %ret.to = getelementptr ptr, ptr %to, i64 %args.n
  call void @point(ptr %rets, i64 %rets.n, ptr %ret.values, ptr %ret.to)
  %size.to = getelementptr ptr, ptr %to, i64 %both
  %size1 = getelementptr i64, ptr %sizes, i64 1
  %size2 = getelementptr i64, ptr %sizes, i64 2
  %to1 = getelementptr ptr, ptr %size.to, i64 1
  %to2 = getelementptr ptr, ptr %size.to, i64 2
  store ptr %sizes, ptr %size.to
  store ptr %size1, ptr %to1
  store ptr %size2, ptr %to2
  %streams = load i64, ptr %sizes
  %threads.at = getelementptr i64, ptr %sizes, i64 3
  %threads = load i64, ptr %threads.at
  %up = add i64 %streams, %threads
  %most = sub i64 %up, 1
  %blocks = sdiv i64 %most, %threads
  %grid = trunc i64 %blocks to i32
  %block = trunc i64 %threads to i32
  %call = call ptr @of_driver(i64 5)
  %said = call i32 %call(ptr %function, i32 %grid, i32 1, i32 1, i32 %block, i32 1, i32 1, i32 0, ptr %stream, ptr %to, ptr null)
  %bad = call i32 @check(i32 %said, i64 5, ptr @empty, ptr %why)
  ret i32 %bad
}

define ptr @handler(ptr %frame) {
enter:
  %why = alloca [16384 x i8], align 16
  %ask = alloca %StreamGet, align 8
  %tell = alloca %ErrorCreate, align 8
  %context.to = alloca ptr
  %popped = alloca ptr
  %extension.at = getelementptr %Frame, ptr %frame, i32 0, i32 1
  %extension = load ptr, ptr %extension.at
  %asked = icmp ne ptr %extension, null
  br i1 %asked, label %extended, label %run
extended:
  %type.at = getelementptr %Query, ptr %extension, i32 0, i32 1
  %type = load i32, ptr %type.at
  %is.query = icmp eq i32 %type, 1
  br i1 %is.query, label %query, label %run
query:                                                       ; asked at registration: which version this is, 0.1
  %metadata.at = getelementptr %Query, ptr %extension, i32 0, i32 3
  %metadata = load ptr, ptr %metadata.at
  %major = getelementptr %Metadata, ptr %metadata, i32 0, i32 1, i32 2
  %minor = getelementptr %Metadata, ptr %metadata, i32 0, i32 1, i32 3
  %traits = getelementptr %Metadata, ptr %metadata, i32 0, i32 2
  store i32 0, ptr %major
  store i32 1, ptr %minor
  store i32 0, ptr %traits
  ret ptr null
run:
  %api.at = getelementptr %Frame, ptr %frame, i32 0, i32 2
  %api = load ptr, ptr %api.at
  %ctx.at = getelementptr %Frame, ptr %frame, i32 0, i32 3
  %ctx = load ptr, ptr %ctx.at
  %ask1 = getelementptr %StreamGet, ptr %ask, i32 0, i32 1
  %ask2 = getelementptr %StreamGet, ptr %ask, i32 0, i32 2
  %ask3 = getelementptr %StreamGet, ptr %ask, i32 0, i32 3
  store i64 32, ptr %ask
  store ptr null, ptr %ask1
  store ptr %ctx, ptr %ask2
  store ptr null, ptr %ask3
  %get_stream.at = getelementptr %Api, ptr %api, i32 0, i32 8
  %get_stream = load ptr, ptr %get_stream.at
  %refusal = call ptr %get_stream(ptr %ask)
  %no.stream = icmp ne ptr %refusal, null
  br i1 %no.stream, label %pass, label %attributes
pass:
  ret ptr %refusal
attributes:
  %stream = load ptr, ptr %ask3
  %count.at = getelementptr %Frame, ptr %frame, i32 0, i32 7, i32 2
  %count = load i64, ptr %count.at
  %three = icmp eq i64 %count, 3
  br i1 %three, label %driver, label %form
form:
  call i32 (ptr, i64, ptr, ...) @snprintf(ptr %why, i64 16384, ptr @no_form)
  br label %fail
driver:
  %items.at = getelementptr %Frame, ptr %frame, i32 0, i32 7, i32 5
  %items = load ptr, ptr %items.at
  %name = load ptr, ptr %items
  %ptx.at = getelementptr ptr, ptr %items, i64 1
  %ptx = load ptr, ptr %ptx.at
  %numbers.at = getelementptr ptr, ptr %items, i64 2
  %numbers = load ptr, ptr %numbers.at
  %letters = load ptr, ptr %name
  %length.at = getelementptr %Span, ptr %name, i32 0, i32 1
  %length = load i64, ptr %length.at
  %text = load ptr, ptr %ptx
  %bytes.at = getelementptr %Span, ptr %ptx, i32 0, i32 1
  %bytes = load i64, ptr %bytes.at
  %sizes.at = getelementptr %Array, ptr %numbers, i32 0, i32 2
  %sizes = load ptr, ptr %sizes.at
  %closed = call i32 @open(ptr %why)
  %no.driver = icmp ne i32 %closed, 0
  br i1 %no.driver, label %fail, label %owner
owner:
  %get_context = call ptr @of_driver(i64 0)
  %said.context = call i32 %get_context(ptr %stream, ptr %context.to)
  %bad.context = call i32 @check(i32 %said.context, i64 0, ptr @empty, ptr %why)
  %no.context = icmp ne i32 %bad.context, 0
  br i1 %no.context, label %fail, label %push
push:
  %context = load ptr, ptr %context.to
  %push.context = call ptr @of_driver(i64 1)
  %said.push = call i32 %push.context(ptr %context)
  %bad.push = call i32 @check(i32 %said.push, i64 1, ptr @empty, ptr %why)
  %no.push = icmp ne i32 %bad.push, 0
  br i1 %no.push, label %fail, label %look
look:
  %known = call ptr @find(ptr %context, ptr %letters, i64 %length)
  %is.known = icmp ne ptr %known, null
  br i1 %is.known, label %go, label %new
new:
  %loaded = call ptr @load(ptr %context, ptr %letters, i64 %length, ptr %text, i64 %bytes, ptr %why)
  %is.loaded = icmp ne ptr %loaded, null
  br i1 %is.loaded, label %go, label %pop
go:
  %function = phi ptr [%known, %look], [%loaded, %new]
  %launched = call i32 @launch(ptr %function, ptr %stream, ptr %frame, ptr %sizes, ptr %why)
  br label %pop
pop:
  %outcome = phi i32 [1, %new], [%launched, %go]
  %pop.context = call ptr @of_driver(i64 2)
  call i32 %pop.context(ptr %popped)
  %well = icmp eq i32 %outcome, 0
  br i1 %well, label %done, label %fail
done:
  ret ptr null
fail:
  %tell1 = getelementptr %ErrorCreate, ptr %tell, i32 0, i32 1
  %tell2 = getelementptr %ErrorCreate, ptr %tell, i32 0, i32 2
  %tell3 = getelementptr %ErrorCreate, ptr %tell, i32 0, i32 3
  store i64 32, ptr %tell
  store ptr null, ptr %tell1
  store ptr %why, ptr %tell2
  store i32 13, ptr %tell3                                   ; internal
  %create.at = getelementptr %Api, ptr %api, i32 0, i32 4
  %create = load ptr, ptr %create.at
  %error = call ptr %create(ptr %tell)
  ret ptr %error
}
