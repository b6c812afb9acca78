# What text needs of others: PCRE2 (regular expressions), utf8proc (normal forms) and zstd (packed files). No
# package of theirs in Debian has a file for find_package.
add_library(tessera_text INTERFACE)
foreach(wanted "PCRE2;pcre2.h;pcre2-8;libpcre2-dev" "UTF8PROC;utf8proc.h;utf8proc;libutf8proc-dev"
    "ZSTD;zstd.h;zstd;libzstd-dev")
  list(GET wanted 0 name)
  list(GET wanted 1 header)
  list(GET wanted 2 library)
  list(GET wanted 3 package)
  find_path(TESSERA_${name}_INCLUDE ${header})
  find_library(TESSERA_${name}_LIBRARY ${library})
  if(NOT TESSERA_${name}_INCLUDE OR NOT TESSERA_${name}_LIBRARY)
    message(FATAL_ERROR "${header} is missing: install ${package} (tools/setup.sh does)")
  endif()
  target_include_directories(tessera_text SYSTEM INTERFACE ${TESSERA_${name}_INCLUDE})
  target_link_libraries(tessera_text INTERFACE ${TESSERA_${name}_LIBRARY})
endforeach()

# Oniguruma is what the reference library splits with; tests compare with it where it is installed.
function(tessera_tests_with_oniguruma target)
  find_path(TESSERA_ONIGURUMA_INCLUDE oniguruma.h)
  find_library(TESSERA_ONIGURUMA_LIBRARY onig)
  if(NOT TESSERA_ONIGURUMA_INCLUDE OR NOT TESSERA_ONIGURUMA_LIBRARY)
    return()
  endif()
  target_include_directories(${target} SYSTEM PRIVATE ${TESSERA_ONIGURUMA_INCLUDE})
  target_link_libraries(${target} PRIVATE ${TESSERA_ONIGURUMA_LIBRARY})
  target_compile_definitions(${target} PRIVATE TESSERA_HAS_ONIGURUMA)
endfunction()
