# Debian packages and a tarball, by cpack. tools/package.sh configures for them.
# Manual pages and completions come from the program itself: what a command is, is said once.
set(pages ${CMAKE_BINARY_DIR}/share)
set(pages_made ${pages}/made)
add_custom_command(OUTPUT ${pages_made}
  COMMAND ${CMAKE_COMMAND} -DPROGRAM=$<TARGET_FILE:tessera> -DFOLDER=${pages}
    -DCHANGELOG=${CMAKE_SOURCE_DIR}/CHANGELOG.md -P ${CMAKE_SOURCE_DIR}/cmake/make_pages.cmake
  COMMAND ${CMAKE_COMMAND} -E touch ${pages_made}
  DEPENDS tessera ${CMAKE_SOURCE_DIR}/CHANGELOG.md ${CMAKE_SOURCE_DIR}/cmake/make_pages.cmake
  COMMENT "Writing manual pages and completions" VERBATIM)
add_custom_target(tessera_pages ALL DEPENDS ${pages_made})
install(DIRECTORY ${pages}/man1 DESTINATION ${CMAKE_INSTALL_MANDIR} COMPONENT program)
install(FILES ${pages}/bash/tessera DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
  COMPONENT program)
set(zsh_folder site-functions)
if(TESSERA_DEBIAN)
  set(zsh_folder vendor-completions)
endif()
install(FILES ${pages}/zsh/_tessera DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/${zsh_folder}
  COMPONENT program)
install(FILES ${pages}/fish/tessera.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d
  COMPONENT program)

set(CPACK_GENERATOR DEB TGZ)
set(CPACK_PACKAGE_NAME tessera)
set(CPACK_PACKAGE_FILE_NAME tessera-${PROJECT_VERSION}-linux-${CMAKE_SYSTEM_PROCESSOR})
set(TESSERA_PACKAGE_CONTACT "The Tessera developers <tessera@example.org>" CACHE STRING
    "who answers for the packages: a name and an address")
set(CPACK_PACKAGE_CONTACT ${TESSERA_PACKAGE_CONTACT})
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "plan, simulate and train transformers over many ranks")
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_PACKAGE_SOURCE tessera)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_ENABLE_COMPONENT_DEPENDS OFF)

set(soversion ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
string(TIMESTAMP TESSERA_PACKAGE_DATE "%a, %d %b %Y %H:%M:%S +0000" UTC)

# tessera_package(COMPONENT NAME SECTION DESCRIPTION): the Debian package that a component becomes, with
# the files that every one has in /usr/share/doc.
function(tessera_package component name section description)
  string(TOUPPER ${component} upper)
  foreach(setting "NAME;${name}" "SECTION;${section}")
    list(GET setting 0 key)
    list(GET setting 1 value)
    set(CPACK_DEBIAN_${upper}_PACKAGE_${key} ${value} PARENT_SCOPE)
  endforeach()
  set(CPACK_COMPONENT_${upper}_DESCRIPTION "${description}" PARENT_SCOPE)
  if(NOT TESSERA_DEBIAN)
    return()
  endif()
  configure_file(cmake/debian_changelog.in ${TESSERA_GENERATED}/doc/${name}/changelog @ONLY)
  set(doc ${CMAKE_INSTALL_DATADIR}/doc/${name})
  install(CODE "execute_process(COMMAND gzip -9nkf changelog
    WORKING_DIRECTORY ${TESSERA_GENERATED}/doc/${name} COMMAND_ERROR_IS_FATAL ANY)" COMPONENT ${component})
  install(FILES ${TESSERA_GENERATED}/doc/${name}/changelog.gz DESTINATION ${doc} COMPONENT ${component})
  install(FILES cmake/debian_copyright DESTINATION ${doc} RENAME copyright COMPONENT ${component})
endfunction()

tessera_package(program tessera science "\
A model, a cluster and a strategy are compiled into one program per rank, to
the byte: tessera shows its memory, traffic and time, searches for the best
strategy, and trains.
.
It uses GPUs where their driver, cuBLASLt, cuDNN and NCCL are installed, and
does without them elsewhere. /usr/share/doc/tessera/examples has runs to start
from.")
if(TESSERA_DEBIAN)
  install(FILES ${pages}/NEWS.gz DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT program)
endif()
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SUGGESTS "openmpi-bin, python3-tessera")

tessera_package(library libtessera${soversion} libs
  "This package has the shared library, for programs that plan, simulate or\ntrain.")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SHLIBDEPS ON)
set(control ${TESSERA_GENERATED}/doc/control)
file(WRITE ${control}/triggers "activate-noawait ldconfig\n")
file(WRITE ${control}/shlibs "libtessera ${soversion} libtessera${soversion} (>= ${PROJECT_VERSION})\n")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_CONTROL_EXTRA ${control}/triggers ${control}/shlibs)
file(WRITE ${control}/overrides "# cpack writes these scripts for every library; ldconfig twice does no harm.
libtessera${soversion}: maintscript-calls-ldconfig [postinst]
libtessera${soversion}: maintscript-calls-ldconfig [postrm]\n")
if(TESSERA_DEBIAN)
  install(FILES ${control}/overrides DESTINATION ${CMAKE_INSTALL_DATADIR}/lintian/overrides
    RENAME libtessera${soversion} COMPONENT library)
endif()

tessera_package(headers libtessera-dev libdevel
  "This package has the headers, the CMake package and the pkg-config file of\nthe library.")
set(CPACK_DEBIAN_HEADERS_PACKAGE_DEPENDS
  "libtessera${soversion} (= ${PROJECT_VERSION}), nlohmann-json3-dev")

set(CPACK_COMPONENTS_ALL program library headers)
if(TESSERA_PYTHON_FOUND)
  tessera_package(python python3-tessera python "\
This package has the module tessera for Python 3: plans, simulations and
searches as dicts, drawn in a notebook, and training.")
  set(minor ${Python3_VERSION_MINOR})
  math(EXPR next_minor "${minor} + 1")
  set(CPACK_DEBIAN_PYTHON_PACKAGE_DEPENDS
    "libtessera${soversion} (= ${PROJECT_VERSION}), python3 (>= 3.${minor}), python3 (<< 3.${next_minor})")
  set(CPACK_DEBIAN_PYTHON_PACKAGE_SHLIBDEPS ON)
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CMAKE_BINARY_DIR}/lib)
  list(APPEND CPACK_COMPONENTS_ALL python)
endif()
include(CPack)
