// What flags of other programs are called after each command here: people type what they know.
#pragma once

#include <string>
#include <string_view>

namespace tessera {

// What to type instead of a flag that stands for no key of a run file. `command` is its words after
// "tessera" ("bench serve"), `name` as spec/foreign_names.h spells names, without dashes at its
// front ("max_model_len"). Empty: nobody calls anything of this command so.
std::string_view foreign_flag_advice(std::string_view command, std::string_view name);

// A flag that names the run file, whatever the command: "--config".
bool names_run_file(std::string_view name);

}  // namespace tessera
