# A compiler cache is used where it is installed; -DTESSERA_CCACHE=off does without.
find_program(TESSERA_CCACHE ccache)
if(TESSERA_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  message(STATUS "Compiler cache: ${TESSERA_CCACHE}")
  # Without these it does not keep what is compiled with precompiled headers (cmake/tessera.cmake).
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros
    ${TESSERA_CCACHE})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${TESSERA_CCACHE})
endif()
