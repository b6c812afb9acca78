# A compiler cache is used where it is installed; -DTESSERA_CCACHE=off does without.
find_program(TESSERA_CCACHE ccache)
if(TESSERA_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  message(STATUS "Compiler cache: ${TESSERA_CCACHE}")
  set(CMAKE_CXX_COMPILER_LAUNCHER ${TESSERA_CCACHE})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${TESSERA_CCACHE})
endif()
