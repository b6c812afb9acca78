# cmake -DFOLDER=... -P check.cmake: a schedule is collected into its place; lines that cannot be are
# refused with what to write. FOLDER is for files that nobody keeps.
function(configure planted)
  file(REMOVE_RECURSE ${FOLDER})
  execute_process(
    COMMAND ${CMAKE_COMMAND} -G Ninja -S ${CMAKE_CURRENT_LIST_DIR} -B ${FOLDER} "-DPLANTED=${planted}"
    OUTPUT_QUIET ERROR_VARIABLE said)
  string(REGEX REPLACE "[ \n]+" " " said "${said}")
  set(said "${said}" PARENT_SCOPE)
endfunction()

function(expect_refusal planted part)
  configure("${planted}")
  string(FIND "${said}" "${part}" at)
  if(at EQUAL -1)
    message(SEND_ERROR "${planted}\n  expected: ${part}\n  said: ${said}")
  endif()
endfunction()

configure("TESSERA_SCHEDULE(8, kPlanted, \"planted-2\", .virtual_stages = 2, .asynchronous = true)")
file(READ ${FOLDER}/schedule_rows.h header)
string(FIND "${header}" "\
  ROW(kPlanted, \"planted-2\", .virtual_stages = 2, .asynchronous = true) \\
  ROW(kFirst, \"first\")
" at)
if(at EQUAL -1)
  message(SEND_ERROR "collected:\n${header}${said}")
endif()

expect_refusal("// nothing" "planted.cc: write one line such as TESSERA_SCHEDULE(75, kMine, \"mine\"")
expect_refusal("TESSERA_SCHEDULE(75, kMine, \"Mine\")" "it has 1: TESSERA_SCHEDULE(75, kMine, \"Mine\")")
expect_refusal("TESSERA_SCHEDULE(kMine, \"mine\")" "write one line such as")
expect_refusal("TESSERA_SCHEDULE(75, kMine, \"mine\", 2)" "write one line such as")
expect_refusal("TESSERA_SCHEDULE(90, kMine, \"mine\")" "first.cc has 90 too; use another")
expect_refusal("TESSERA_SCHEDULE(75, kFirst, \"mine\")" "first.cc has kFirst too; use another")
expect_refusal("TESSERA_SCHEDULE(75, kMine, \"first\")" "first.cc has \"first\" too; use another")
