// Reading run files (TOML), overrides and mesh strings into a RunSpec. Pure: text in, values out.
// Every mistake throws ConfigError with "FILE:LINE:COLUMN: message", the offending value and, for
// an unknown key, the nearest known one.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "spec/file_reader.h"
#include "spec/hf_config.h"
#include "spec/run_file/setting.h"
#include "spec/run_spec.h"

namespace tessera {

// `overrides` are "section.key=value" strings as given to --set; value is TOML, or a bare word
// taken as a string. Presets and hf folders are resolved (explicit keys win over them), and a batch
// of so many tokens ("4Mtok") becomes sequences. Without logging.run_dir it is empty: where a run
// goes is then chosen when it starts. Does not validate combinations: see validate.h.
RunSpec parse_run_file(std::string_view text, const std::string& file_name,
                       std::span<const std::string> overrides, const FileReader& read_file);
// The same with settings that were not all said by --set.
RunSpec parse_run(std::string_view text, const std::string& file_name,
                  std::span<const Setting> settings, const FileReader& read_file);

// The cluster that the run file or the settings name (cluster.name), or empty.
std::string named_cluster(std::string_view text, const std::string& file_name,
                          std::span<const Setting> settings);

// "dp=2,tp=2,zero=1,sequence_parallel=true" applied to `base`: mesh axes that are not named become
// 1, everything else keeps the value it has in `base`.
ParallelSpec parse_mesh(std::string_view mesh, const ParallelSpec& base);

// The config.json of a resolved run's model: model_from_hf_config gives the same model again. Empty
// where the family's file has no word for a choice of the model.
std::optional<nlohmann::ordered_json> hf_config(const RunSpec& spec);

// Every field after defaults, presets and overrides: what resolved.json holds. Reading it back
// with run_spec_from_json gives the same RunSpec.
nlohmann::ordered_json to_json(const RunSpec& spec);
RunSpec run_spec_from_json(const nlohmann::json& json);

// The same as a run file: what resolved.toml holds. Reading and resolving it gives the same
// RunSpec, but for logging.run_dir, which it does not say. A schedule file is named, not held.
std::string to_toml(const RunSpec& spec);

}  // namespace tessera
