# tessera_collect_schedules(FOLDER HEADER): writes into HEADER the list of named pipeline schedules,
# TESSERA_SCHEDULES(ROW), from the line TESSERA_SCHEDULE(PLACE, ENUMERATOR, NAME, ...); of each file
# of FOLDER, in the order of their places.
function(tessera_collect_schedules folder header)
  file(GLOB files CONFIGURE_DEPENDS ${folder}/*.cc)
  list(FILTER files EXCLUDE REGEX "_test\\.cc$")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${files})
  set(rows "")
  foreach(file ${files})
    file(READ ${file} text)
    string(REGEX MATCHALL "TESSERA_SCHEDULE\\([^;]*\\)" found "${text}")
    list(LENGTH found count)
    string(REGEX REPLACE "[ \n]+" " " line "${found}")
    if(NOT count EQUAL 1 OR NOT line MATCHES
       "^TESSERA_SCHEDULE\\(([1-9][0-9]*), (k[A-Za-z0-9]+), (\"[a-z0-9-]+\")((, \\.[a-z_]+ = [a-z0-9]+)*)\\)$")
      message(FATAL_ERROR "${file}: write one line such as\n"
        "  TESSERA_SCHEDULE(75, kMine, \"mine\", .virtual_stages = 2);\n"
        "with its place among the schedules, an enumerator, a name of a-z, 0-9 and -, and fields of "
        "ScheduleKind; it has ${count}: ${found}")
    endif()
    list(APPEND rows "${CMAKE_MATCH_1}:  ROW(${CMAKE_MATCH_2}, ${CMAKE_MATCH_3}${CMAKE_MATCH_4})")
    foreach(said ${CMAKE_MATCH_1} ${CMAKE_MATCH_2} ${CMAKE_MATCH_3})
      string(MAKE_C_IDENTIFIER "${said}" key)
      if(DEFINED file_of_${key})
        message(FATAL_ERROR "${file}: ${file_of_${key}} has ${said} too; use another")
      endif()
      set(file_of_${key} ${file})
    endforeach()
  endforeach()
  list(SORT rows COMPARE NATURAL)
  list(TRANSFORM rows REPLACE "^[0-9]+:" "")
  list(JOIN rows " \\\n" TESSERA_ROWS)
  configure_file(${CMAKE_CURRENT_FUNCTION_LIST_DIR}/schedule_rows.h.in ${header} @ONLY)
endfunction()
