# One library per folder under src/, linking only what the folder table allows (tools/layers.txt).

# Compilers that nobody tried here warn of more: only continuous integration stops at a warning.
set(in_ci OFF)
if("$ENV{CI}" STREQUAL "true")
  set(in_ci ON)
endif()
option(TESSERA_WERROR "warnings are errors; on where the environment says CI=true" ${in_ci})

# A local name may be that of a constant in another file of its group.
set(shadow_warning -Wshadow)
if(TESSERA_UNITY)
  set(shadow_warning "$<$<CXX_COMPILER_ID:GNU>:-Wshadow=local>")
endif()

add_library(tessera_options INTERFACE)
target_compile_options(tessera_options INTERFACE
  # -Wrestrict gives false alarms on std::string in g++ 12 (GCC bug 105651), -Wdangling-reference in g++ 13
  # on every function that takes a temporary and gives a reference; newer clang warns of what
  # std::stable_sort of g++ 12 uses inside.
  "$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;${shadow_warning};-Wconversion>"
  "$<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-restrict;-Wno-dangling-reference>"
  "$<$<COMPILE_LANG_AND_ID:CXX,Clang>:-Wno-deprecated-declarations>"
  "$<$<COMPILE_LANGUAGE:CUDA>:-lineinfo;--expt-relaxed-constexpr;--expt-extended-lambda>")
if(TESSERA_WERROR)
  target_compile_options(tessera_options INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:-Werror>"
    "$<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings>")
endif()
# nvcc rewrites what {fmt} would check at compile time.
target_compile_definitions(tessera_options INTERFACE TOML_HEADER_ONLY=1
  "$<$<COMPILE_LANGUAGE:CUDA>:FMT_CONSTEVAL=;FMT_USE_CONSTEXPR=1>")
target_link_libraries(tessera_options INTERFACE fmt::fmt)
target_include_directories(tessera_options INTERFACE ${CMAKE_SOURCE_DIR}/src ${TESSERA_GENERATED})
if(TESSERA_SANITIZE STREQUAL "address")
  target_compile_options(tessera_options INTERFACE -O1 -fsanitize=address,undefined
    -fno-sanitize-recover=undefined -fno-omit-frame-pointer -g)
  target_link_options(tessera_options INTERFACE -fsanitize=address,undefined)
elseif(TESSERA_SANITIZE STREQUAL "thread")
  target_compile_options(tessera_options INTERFACE -O1 -fsanitize=thread -fno-omit-frame-pointer -g)
  target_link_options(tessera_options INTERFACE -fsanitize=thread)
elseif(NOT TESSERA_SANITIZE STREQUAL "")
  message(FATAL_ERROR "TESSERA_SANITIZE is '${TESSERA_SANITIZE}': use address, thread or nothing")
endif()

# What is compiled more than it runs: g++ takes three quarters of the time of -O1 for it.
set(TESSERA_LIGHT "$<$<CONFIG:Release>:$<IF:$<CXX_COMPILER_ID:GNU>,-Og,-O1>>")
# What neither waits for others nor loops.
set(TESSERA_ORDINARY "$<$<CONFIG:Release>:-O1>")
# What loops over numbers.
set(TESSERA_LOOPS -O3 -march=${TESSERA_MARCH} -ffp-contract=fast -fno-math-errno -fno-trapping-math)

# tessera_library(NAME DIR deps...): every source of src/DIR except its tests, their support, and what
# TESSERA_LEFT_OUT matches: the backends that this build cannot have, or the stubs of those it can.
# Sub-folders that were made libraries of their own before (tessera_part) are left to them.
function(tessera_library name dir)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${dir}/*.cc
    ${CMAKE_SOURCE_DIR}/src/${dir}/*.cu)
  foreach(pattern "_test\\.cc$" "/testing/" ${TESSERA_LEFT_OUT} ${TESSERA_PARTS})
    list(FILTER sources EXCLUDE REGEX ${pattern})
  endforeach()
  if(sources)
    add_library(tessera_${name} STATIC ${sources})
    target_link_libraries(tessera_${name} PUBLIC tessera_options ${ARGN})
    tessera_unity(tessera_${name})
  else()
    add_library(tessera_${name} INTERFACE)
    target_link_libraries(tessera_${name} INTERFACE tessera_options ${ARGN})
  endif()
  if(NOT dir MATCHES "/")
    set_property(GLOBAL APPEND PROPERTY TESSERA_FOLDERS "${name}|${dir}")
  endif()
endfunction()

# tessera_part(NAME DIR deps...): a library of a sub-folder, which is compiled with options of its own.
# Its tests are in the program of the folder around it.
macro(tessera_part name dir)
  tessera_library(${name} ${dir} ${ARGN})
  list(APPEND TESSERA_PARTS "/src/${dir}/")
endmacro()

# tessera_test_program(TARGET [LOOPS]): a program of GoogleTest. Tests are compiled more than they run, but
# for those with LOOPS.
function(tessera_test_program target)
  if("LOOPS" IN_LIST ARGN)
    set(kind tests_that_loop)
    set(options ${TESSERA_LIGHT})
  else()
    set(kind tests)
    set(options -O0)
  endif()
  target_compile_options(${target} PRIVATE ${options})
  target_link_libraries(${target} PRIVATE tessera_base)  # it has what common headers leave out
  tessera_read_headers_once(${target} ${kind} GTest::gtest)
endfunction()

# One test program per folder, from the *_test.cc beside its sources. What lies in its testing/ is
# a library of its own, tessera_NAME_testing, for other tests too.
function(tessera_folder_tests)
  # For tests that may use a GPU.
  add_library(tessera_test_environment OBJECT ${CMAKE_SOURCE_DIR}/tests/support/use_environment.cc)
  target_link_libraries(tessera_test_environment PUBLIC tessera_tensor)
  get_property(folders GLOBAL PROPERTY TESSERA_FOLDERS)
  set(testing_libraries)
  foreach(entry ${folders})
    string(REPLACE "|" ";" entry ${entry})
    list(GET entry 0 name)
    list(GET entry 1 dir)
    file(GLOB support CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${dir}/testing/*.cc)
    if(support)
      add_library(tessera_${name}_testing STATIC ${support})
      tessera_unity(tessera_${name}_testing)
      target_link_libraries(tessera_${name}_testing PUBLIC tessera_${name})
      list(APPEND testing_libraries tessera_${name}_testing)
      # Expectations are computed here: no fused multiply-add.
      target_compile_options(tessera_${name}_testing PRIVATE -O1 -ffp-contract=off)
    endif()
    file(GLOB_RECURSE tests CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${dir}/*_test.cc)
    foreach(pattern ${TESSERA_LEFT_OUT})
      list(FILTER tests EXCLUDE REGEX ${pattern})
    endforeach()
    if(tests)
      add_executable(${name}_test ${tests})
      tessera_unity(${name}_test)
      target_link_libraries(${name}_test PRIVATE tessera_${name} GTest::gtest_main)
      # Support of the folders below may be used too: they come first in the folder table.
      target_link_libraries(${name}_test PRIVATE ${testing_libraries})
      if(name MATCHES "^(kernels|comm|runtime|train|serve)$")
        target_link_libraries(${name}_test PRIVATE tessera_test_environment)
      endif()
      set(loops)
      if(name MATCHES "^(collective|comm|compile|kernels|search|sim)$")
        set(loops LOOPS)
      endif()
      tessera_test_program(${name}_test ${loops})
      target_compile_definitions(${name}_test PRIVATE TESSERA_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
      if(name STREQUAL "serve")
        target_link_libraries(tessera_serve_testing PUBLIC tessera_http_testing)
        target_compile_definitions(tessera_serve_testing PRIVATE TESSERA_SOURCE_DIR="${CMAKE_SOURCE_DIR}"
          TESSERA_SHARED_DATA="${TESSERA_SHARED_DATA}")
      endif()
      gtest_discover_tests(${name}_test DISCOVERY_TIMEOUT 60 TEST_PREFIX "${name}.")
    endif()
  endforeach()
endfunction()
