# The one seam for matrix products: a CBLAS, always called single-threaded (the engine splits work).
# BLIS where it is installed, else OpenBLAS.
if(NOT TESSERA_BLAS MATCHES "^(auto|blis|openblas)$")
  message(FATAL_ERROR "TESSERA_BLAS is '${TESSERA_BLAS}': use auto, blis or openblas")
endif()
set(_suffix ${CMAKE_LIBRARY_ARCHITECTURE})
set(TESSERA_BLAS_DEFINITION "")
if(TESSERA_BLAS MATCHES "^(auto|blis)$")
  find_library(TESSERA_BLIS_LIBRARY NAMES blis
    PATHS /usr/lib/${_suffix}/blis-serial /usr/lib/${_suffix}/blis-pthread /usr/lib/${_suffix}/blis-openmp)
  find_path(TESSERA_BLIS_INCLUDE NAMES cblas.h NO_DEFAULT_PATH
    PATHS /usr/include/${_suffix}/blis-serial /usr/include/${_suffix}/blis-pthread
          /usr/include/${_suffix}/blis-openmp /usr/include/${_suffix}/blis /usr/include/blis)
  if(TESSERA_BLIS_LIBRARY AND TESSERA_BLIS_INCLUDE)
    set(TESSERA_BLAS_LIBRARY ${TESSERA_BLIS_LIBRARY})
    set(TESSERA_BLAS_INCLUDE ${TESSERA_BLIS_INCLUDE})
    set(TESSERA_BLAS_DEFINITION TESSERA_BLAS_IS_BLIS=1)
  endif()
endif()
if(NOT TESSERA_BLAS_LIBRARY AND TESSERA_BLAS MATCHES "^(auto|openblas)$")
  find_library(TESSERA_OPENBLAS_LIBRARY NAMES openblas
    PATHS /usr/lib/${_suffix}/openblas-serial /usr/lib/${_suffix}/openblas-pthread)
  find_path(TESSERA_OPENBLAS_INCLUDE NAMES cblas.h
    PATHS /usr/include/${_suffix}/openblas-serial /usr/include/${_suffix}/openblas-pthread
          /usr/include/openblas)
  if(TESSERA_OPENBLAS_LIBRARY AND TESSERA_OPENBLAS_INCLUDE)
    set(TESSERA_BLAS_LIBRARY ${TESSERA_OPENBLAS_LIBRARY})
    set(TESSERA_BLAS_INCLUDE ${TESSERA_OPENBLAS_INCLUDE})
    set(TESSERA_BLAS_DEFINITION TESSERA_BLAS_IS_OPENBLAS=1)
  endif()
endif()
if(NOT TESSERA_BLAS_LIBRARY)
  message(FATAL_ERROR "no CBLAS found: install libblis-dev or libopenblas-dev")
endif()
message(STATUS "CBLAS: ${TESSERA_BLAS_LIBRARY}")
add_library(tessera_blas INTERFACE)
target_link_libraries(tessera_blas INTERFACE ${TESSERA_BLAS_LIBRARY} m)
target_include_directories(tessera_blas SYSTEM INTERFACE ${TESSERA_BLAS_INCLUDE})
target_compile_definitions(tessera_blas INTERFACE ${TESSERA_BLAS_DEFINITION})
