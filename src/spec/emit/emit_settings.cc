#include "spec/emit/emit_settings.h"

#include <algorithm>
#include <array>

#include "base/text/text.h"
#include "spec/emit/emit_parts.h"
#include "spec/run_file/trainable.h"

namespace tessera {
namespace {

constexpr std::array<std::string_view, 4> kSystems = {"megatron", "torchtitan", "deepspeed",
                                                      "nanotron"};

}  // namespace

bool can_emit(std::string_view system) {
  return std::find(kSystems.begin(), kSystems.end(), system) != kSystems.end();
}

std::string emit_settings(const RunSpec& spec, std::string_view system) {
  require_config(
      !spec.train.fp8.on(),
      "train.dtype = \"{}\" with fp8_recipe = \"{}\": scales of {} are others than ours; "
      "use dtype = \"bf16\", and set its fp8 by hand",
      spec.train.dtype_name(), name_of(spec.train.fp8.recipe), system);
  if (system == "megatron") return megatron_settings(spec);
  if (system == "torchtitan") return torchtitan_settings(spec);
  if (system == "deepspeed") return deepspeed_settings(spec);
  if (system == "nanotron") return nanotron_settings(spec);
  throw ConfigError(fmt::format("unknown system {}; {}", in_quotes(system),
                                suggestion(system, kSystems, "systems")));
}

}  // namespace tessera
