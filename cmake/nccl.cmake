# NCCL is optional: where the headers of the CUDA runtime and of NCCL are found, the backend in
# src/comm/nccl is built; else src/comm/nccl/absent, which refuses and says what to install. The
# libraries are opened when a world is made, never linked: one program runs with and without them.
set(TESSERA_NCCL "auto" CACHE STRING "NCCL backend: auto (where found), on or off")
find_path(TESSERA_CUDA_INCLUDE cuda_runtime.h
  HINTS ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda PATH_SUFFIXES include)
find_path(TESSERA_NCCL_INCLUDE nccl.h
  HINTS ENV NCCL_HOME ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda PATH_SUFFIXES include)
set(TESSERA_NCCL_FOUND FALSE)
if(TESSERA_NCCL MATCHES "^(auto|on)$")
  if(TESSERA_CUDA_INCLUDE AND TESSERA_NCCL_INCLUDE)
    set(TESSERA_NCCL_FOUND TRUE)
  endif()
elseif(NOT TESSERA_NCCL STREQUAL "off")
  message(FATAL_ERROR "TESSERA_NCCL is '${TESSERA_NCCL}': use auto, on or off")
endif()
if(TESSERA_NCCL_FOUND)
  message(STATUS "NCCL: ${TESSERA_NCCL_INCLUDE}/nccl.h")
  list(APPEND TESSERA_LEFT_OUT "/comm/nccl/absent/")
  add_library(tessera_nccl_headers INTERFACE)
  target_include_directories(tessera_nccl_headers SYSTEM INTERFACE
    ${TESSERA_NCCL_INCLUDE} ${TESSERA_CUDA_INCLUDE})
  set(TESSERA_NCCL_LIBRARY tessera_nccl_headers ${CMAKE_DL_LIBS})
else()
  if(TESSERA_NCCL STREQUAL "on")
    message(FATAL_ERROR "TESSERA_NCCL is on, but cuda_runtime.h or nccl.h was not found: set "
      "CUDA_HOME and NCCL_HOME to where they are installed")
  endif()
  list(APPEND TESSERA_LEFT_OUT "/comm/nccl/[^/]*$")
  message(STATUS "No NCCL: the nccl backend is left out")
endif()
