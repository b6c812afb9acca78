# Headers take most of the time of a build from nothing. With TESSERA_UNITY, several sources of a
# target are compiled as one (CMake's unity builds), which takes less than half of the time; one that is
# edited is then compiled with its group, so a build that is edited in is better without.
option(TESSERA_UNITY "compile several sources as one: for builds from nothing" OFF)
set(TESSERA_UNITY_FILES 40 CACHE STRING "how many sources are compiled as one, at most")
set(TESSERA_UNITY_EXCEPT "" CACHE STRING "targets whose sources are compiled one by one all the same: those that are edited in")
mark_as_advanced(TESSERA_UNITY_FILES TESSERA_UNITY_EXCEPT)
option(TESSERA_COMMON_HEADERS_ONCE "read what most sources include once, also without TESSERA_UNITY" OFF)
if(TESSERA_UNITY)
  # g++ takes a source in a group for a header, which should have nothing of an unnamed namespace.
  add_compile_options("$<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage>")
  # Memory is collected less often: a tenth of the time for a fifth more of it.
  add_compile_options("$<$<COMPILE_LANG_AND_ID:CXX,GNU>:SHELL:--param ggc-min-heapsize=1000000>")
endif()

# tessera_header_types(HEADERS...): sets TESSERA_HEADER_TYPES, the types that they declare at the left margin.
function(tessera_header_types)
  set(types "")
  foreach(header ${ARGN})
    file(READ ${header} text)
    string(REGEX MATCHALL "\n(struct|class|enum class|enum|union|using) [A-Za-z_][A-Za-z0-9_]*" found "${text}")
    list(APPEND types ${found})
  endforeach()
  list(TRANSFORM types REPLACE "^.* " "")
  list(REMOVE_DUPLICATES types)
  set(TESSERA_HEADER_TYPES "${types}" PARENT_SCOPE)
endfunction()
if(TESSERA_UNITY)
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/*.h ${CMAKE_SOURCE_DIR}/apps/*.h
    ${CMAKE_SOURCE_DIR}/tests/*.h)
  tessera_header_types(${headers})
endif()

# tessera_names(FILE): what FILE defines at the left margin, where everything stands that is not inside
# something else. Sets `names` (functions, types and constants; methods are not among them), `aliases`
# ("Clock = std::chrono::steady_clock") and `enums` (whose values it can name alone).
function(tessera_names file)
  file(READ ${file} text)
  set(word "[A-Za-z_][A-Za-z0-9_]*")
  set(type "[A-Za-z_][A-Za-z0-9_:<>,&* ]*")
  string(REGEX MATCHALL "\n${type}[ *&]${word}\\(" functions "${text}")
  string(REGEX MATCHALL "\n(struct|class|enum class|enum|union) ${word}" types "${text}")
  string(REGEX MATCHALL "\n(constexpr|const|static|inline|thread_local) ${type}[ *&]k[A-Z][A-Za-z0-9]*"
    constants "${text}")
  string(REGEX MATCHALL ", k[A-Z][A-Za-z0-9]* = " more_constants "${text}")  # kFirst = 0, kSecond = 1
  list(TRANSFORM more_constants REPLACE " = $" "")
  string(REGEX MATCHALL "\nusing ${word} = [^;]*" aliases "${text}")
  string(REGEX MATCHALL "\nusing enum ${type}" enums "${text}")
  set(names ${functions} ${types} ${constants} ${more_constants})
  list(TRANSFORM names REPLACE "^.*[ *&](${word})\\(?$" "\\1")
  list(REMOVE_DUPLICATES names)
  # A type that some header has too is another one than that header's: for the file alone.
  list(TRANSFORM types REPLACE "^.* " "")
  foreach(type ${types})
    if(type IN_LIST TESSERA_HEADER_TYPES)
      set(enums "alone: ${file}")
    endif()
  endforeach()
  set(names "${names}" PARENT_SCOPE)
  set(aliases "${aliases}" PARENT_SCOPE)
  set(enums "${enums}" PARENT_SCOPE)
endfunction()

# tessera_fits(GROUP): sets `fits` to whether a source with `names`, `aliases` and `enums` means the same
# in GROUP as alone: no name twice, every alias the same, the same values of enums that can be named alone.
function(tessera_fits group)
  set(all_names ${names} ${names_${group}})
  set(all_aliases ${aliases} ${aliases_${group}})
  list(REMOVE_DUPLICATES all_aliases)
  list(TRANSFORM all_aliases REPLACE "^\nusing ([A-Za-z0-9_]+) .*" "\\1")
  list(APPEND all_names ${all_aliases})
  list(LENGTH all_names before)
  list(REMOVE_DUPLICATES all_names)
  list(LENGTH all_names after)
  set(fits FALSE)
  if(before EQUAL after AND "${enums}" STREQUAL "${enums_${group}}" AND
     count_${group} LESS TESSERA_UNITY_FILES)
    set(fits TRUE)
  endif()
  set(fits ${fits} PARENT_SCOPE)
endfunction()

# tessera_groups(SOURCES...): sets `group_of_SOURCE` for each, so that none has to know of the others in
# its group: helpers of unnamed namespaces may be called the same in any two files.
macro(tessera_groups)
  set(groups 0)
  foreach(source ${ARGN})
    tessera_names(${source})
    set(group 0)
    set(fits FALSE)
    while(group LESS groups)
      tessera_fits(${group})
      if(fits)
        break()
      endif()
      math(EXPR group "${group} + 1")
    endwhile()
    # A test may put the one of these in the other's place, which then must not come along.
    get_filename_component(folder ${source} DIRECTORY)
    get_filename_component(name ${source} NAME)
    if(source MATCHES "/absent/" OR EXISTS ${folder}/absent/${name})
      set(enums "alone: ${source}")
      set(fits FALSE)
      set(group ${groups})
    endif()
    if(NOT fits)
      math(EXPR groups "${groups} + 1")
      set(names_${group} "")
      set(aliases_${group} "")
      set(enums_${group} "${enums}")
      set(count_${group} 0)
    endif()
    list(APPEND names_${group} ${names})
    list(APPEND aliases_${group} ${aliases})
    math(EXPR count_${group} "${count_${group}} + 1")
    set(group_of_${source} ${group})
  endforeach()
endmacro()

function(tessera_unity target)
  if(NOT TESSERA_UNITY OR target IN_LIST TESSERA_UNITY_EXCEPT)
    return()
  endif()
  get_target_property(sources ${target} SOURCES)
  list(FILTER sources INCLUDE REGEX "\\.cc$")
  tessera_groups(${sources})
  foreach(source ${sources})
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP "${group_of_${source}}")
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
endfunction()

# tessera_read_headers_once(TARGET KIND [libraries]): what most sources include is read once for all targets of
# a KIND, which are compiled with the same options: those of the first one, so they are set before. No source
# may count on it. The page's core does without: some of its sources are compiled for speed, the rest for size, and
# clang refuses to share headers between the two.
set(TESSERA_COMMON_HEADERS <algorithm> <array> <atomic> <chrono> <cmath> <cstdint> <cstdlib> <filesystem>
  <fstream> <functional> <map> <memory> <mutex> <numeric> <optional> <random> <set> <span> <sstream> <string>
  <string_view> <thread> <tuple> <unordered_map> <utility> <variant> <vector> <fmt/format.h>
  <nlohmann/json.hpp> <base/text/json_templates.h>)
function(tessera_read_headers_once target kind)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "^(GNU|Clang)$" OR CMAKE_SYSTEM_PROCESSOR STREQUAL "wasm32" OR
     NOT (TESSERA_UNITY OR TESSERA_COMMON_HEADERS_ONCE))
    return()
  endif()
  set(headers tessera_headers_of_${kind})
  if(NOT TARGET ${headers})
    file(WRITE ${TESSERA_GENERATED}/${headers}.cc "")  # a target has a source
    add_library(${headers} OBJECT ${TESSERA_GENERATED}/${headers}.cc)
    target_link_libraries(${headers} PRIVATE tessera_options nlohmann_json::nlohmann_json Threads::Threads
      ${ARGN})
    get_target_property(options ${target} COMPILE_OPTIONS)
    target_compile_options(${headers} PRIVATE ${options})
    get_target_property(position_independent ${target} POSITION_INDEPENDENT_CODE)
    set_target_properties(${headers} PROPERTIES POSITION_INDEPENDENT_CODE ${position_independent})
    set(common ${TESSERA_COMMON_HEADERS})
    if("GTest::gtest" IN_LIST ARGN)
      list(APPEND common <gtest/gtest.h>)
    endif()
    target_precompile_headers(${headers} PRIVATE ${common})
  endif()
  target_precompile_headers(${target} REUSE_FROM ${headers})
endfunction()
