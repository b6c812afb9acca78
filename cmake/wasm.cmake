# Toolchain for the core of the studio: WebAssembly with Debian's clang 19 (wasm/README.md).
#   cmake -S . -B build-wasm -G Ninja --toolchain cmake/wasm.cmake && ninja -C build-wasm
set(CMAKE_SYSTEM_NAME Generic)
set(CMAKE_SYSTEM_PROCESSOR wasm32)
set(CMAKE_C_COMPILER clang-19)
set(CMAKE_CXX_COMPILER clang++-19)
set(CMAKE_AR /usr/bin/ar)
set(CMAKE_RANLIB /usr/bin/ranlib)
set(CMAKE_CXX_COMPILER_TARGET wasm32-wasi)
# Headers and libraries of the target lie in folders of its name below this.
set(CMAKE_CXX_FLAGS_INIT "--sysroot=/usr -fwasm-exceptions")
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE NEVER)
