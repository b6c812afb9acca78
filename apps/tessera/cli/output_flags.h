// Flags that name what a command writes. The place is looked at before anything is worked out: a
// folder that is not there, or a name that belongs to another kind of file, is told at once, and no
// file of the user's is replaced by one of another kind.
#pragma once

#include <string>
#include <string_view>

#include "cli/command.h"

namespace tessera {

struct OutputKind {
  std::string_view what;      // in messages: "a picture (SVG)"
  std::string_view endings;   // of its names, with bars between: ".json|.json.gz"
  std::string_view example;   // a name: "step.svg"
  bool any_new_name = false;  // only files that are there need one of the endings
  bool dash_is_stdout = false;
};
inline constexpr OutputKind kSvgOutput = {"a picture (SVG)", ".svg", "picture.svg"};
inline constexpr OutputKind kTraceOutput = {"a trace (JSON)", ".json|.gz", "trace.json"};
inline constexpr OutputKind kCsvOutput = {"CSV", ".csv", "table.csv"};
inline constexpr OutputKind kSafetensorsOutput = {"tensors (safetensors)", ".safetensors",
                                                  "tensors.safetensors"};
inline constexpr OutputKind kTextOutput = {"text", ".txt", "stories.txt", true, true};

// Where "-" is standard output.
inline constexpr OutputKind kCsvOrStdout = {"CSV", ".csv", "table.csv", false, true};

// ConfigError unless a file of this kind can be written at `path`. What is no regular file
// (/dev/stdout, a pipe) may be called anything.
void check_output_file(const std::string& flag, const std::string& path, const OutputKind& kind);
// ConfigError unless `path` is a folder that can be written in, or can be made one.
void check_output_folder(const std::string& flag, const std::string& path);

CLI::Option* add_output_file(CLI::App& app, const std::string& name, std::string& target,
                             const OutputKind& kind, const std::string& shown,
                             const std::string& description);
CLI::Option* add_output_folder(CLI::App& app, const std::string& name, std::string& target,
                               const std::string& description);

}  // namespace tessera
