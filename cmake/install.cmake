# What `cmake --install` and the packages are made of, in components: program, library, headers.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# Debian's own packages lie in /usr, with some files and folders that only they have.
set(TESSERA_DEBIAN FALSE)
if(CMAKE_INSTALL_PREFIX STREQUAL "/usr" AND EXISTS /etc/debian_version)
  set(TESSERA_DEBIAN TRUE)
endif()

install(TARGETS tessera RUNTIME COMPONENT program)
install(TARGETS tessera_shared EXPORT tessera-targets
  LIBRARY COMPONENT library NAMELINK_COMPONENT headers)
install(DIRECTORY include/tessera DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT headers
  FILES_MATCHING PATTERN "*.h")

# find_package(tessera) and pkg-config; neither knows where it lies, so a prefix can be moved.
set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/tessera)
install(EXPORT tessera-targets NAMESPACE tessera:: DESTINATION ${package_folder} COMPONENT headers)
configure_package_config_file(cmake/tessera-config.cmake.in ${TESSERA_GENERATED}/tessera-config.cmake
  INSTALL_DESTINATION ${package_folder} PATH_VARS CMAKE_INSTALL_FULL_BINDIR)
# Before 1.0 a minor version may change what a program meets.
write_basic_package_version_file(${TESSERA_GENERATED}/tessera-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${TESSERA_GENERATED}/tessera-config.cmake ${TESSERA_GENERATED}/tessera-config-version.cmake
  DESTINATION ${package_folder} COMPONENT headers)
file(RELATIVE_PATH TESSERA_PC_TO_PREFIX ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
string(REGEX REPLACE "/$" "" TESSERA_PC_TO_PREFIX ${TESSERA_PC_TO_PREFIX})
configure_file(cmake/tessera.pc.in ${TESSERA_GENERATED}/tessera.pc @ONLY)
install(FILES ${TESSERA_GENERATED}/tessera.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT headers)

# Examples lie beside what they need: run files, programs, a notebook.
set(program_examples ${CMAKE_INSTALL_DOCDIR}/examples)
set(headers_examples ${program_examples})
set(python_examples ${program_examples})
if(TESSERA_DEBIAN)
  set(headers_examples ${CMAKE_INSTALL_DATADIR}/doc/libtessera-dev/examples)
  set(python_examples ${CMAKE_INSTALL_DATADIR}/doc/python3-tessera/examples)
else()
  install(FILES LICENSE CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT program)
endif()
install(FILES examples/demo.toml examples/pipeline.toml examples/experts.toml
  DESTINATION ${program_examples} COMPONENT program)
install(PROGRAMS examples/multi_host/ssh_run.sh examples/multi_host/slurm.sbatch
  DESTINATION ${program_examples}/multi_host COMPONENT program)
install(DIRECTORY examples/02_plan examples/03_train examples/04_own_schedule examples/05_simulate
  examples/with_package DESTINATION ${headers_examples} COMPONENT headers)
