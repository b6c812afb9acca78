// Flags that read into a variable. Values are parsed here rather than by CLI11, so that a mistake
// throws ConfigError with the flag, the value and what is expected. A flag given twice: the last
// one counts, except for lists.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command.h"

namespace tessera {

// `kind` is how help names the value ("FILE", "N", "auto|always|never"). For a positional argument
// (`name` without dashes) it is also how usage names the argument. A flag takes no empty text: it
// is what an unset variable of a shell leaves.
CLI::Option* add_text(CLI::App& app, const std::string& name, std::string& target,
                      const std::string& kind, const std::string& description);
// The same, where `check` throws for a text that cannot be meant.
CLI::Option* add_checked_text(CLI::App& app, const std::string& name, std::string& target,
                              const std::string& kind, const std::string& description,
                              std::function<void(const std::string&)> check);
// Every use of a flag adds one value; a positional list takes all arguments.
CLI::Option* add_list(CLI::App& app, const std::string& name, std::vector<std::string>& target,
                      const std::string& kind, const std::string& description);
// One of the words in `choices`, "a|b|c", in letters of any case.
CLI::Option* add_choice(CLI::App& app, const std::string& name, std::string& target,
                        const std::string& choices, const std::string& description);
// At least `least`, as people write whole numbers: 64, 2k, 1e3. The default is what `target` holds.
CLI::Option* add_whole(CLI::App& app, const std::string& name, int64_t& target, int64_t least,
                       const std::string& description);
// Tokens of a sequence: 8k is 8192.
CLI::Option* add_length(CLI::App& app, const std::string& name, int64_t& target,
                        const std::string& description);
// Sequences of a step, or in `tokens` how many tokens they are together: 4Mtok.
CLI::Option* add_batch(CLI::App& app, const std::string& name, int64_t& sequences, int64_t& tokens,
                       const std::string& description);
// A count that is kept as it was written, for who knows better what may stand there.
CLI::Option* add_count_text(CLI::App& app, const std::string& name, std::string& target,
                            const std::string& description);
// A large whole number as people write it: 15T, 15.6e12.
CLI::Option* add_count(CLI::App& app, const std::string& name, int64_t& target,
                       const std::string& description);
// Bytes, from 1 to `most`: 4000000, 4M, 4MB or 4MiB.
CLI::Option* add_bytes(CLI::App& app, const std::string& name, int64_t& target, int64_t most,
                       const std::string& description);
CLI::Option* add_real(CLI::App& app, const std::string& name, double& target, double least,
                      const std::string& description);
CLI::Option* add_switch(CLI::App& app, const std::string& name, bool& target,
                        const std::string& description);

void must_be_given(CLI::Option* option);
// Left out of help and completion.
void hide(CLI::Option* option);

// "a|b|c" -> {"a", "b", "c"}.
std::vector<std::string> split_choices(std::string_view choices);
// The words an option's value may be, or nothing when any text goes.
std::vector<std::string> choices_of(const CLI::Option& option);
bool takes_value(const CLI::Option& option);
bool was_given(const CLI::Option& option);
bool is_hidden(const CLI::Option& option);

}  // namespace tessera
