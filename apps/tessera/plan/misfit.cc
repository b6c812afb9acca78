#include "plan/misfit.h"

#include <fmt/ranges.h>

#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text/text.h"
#include "plan/report/misfit_text.h"

namespace tessera {
namespace {

// A setting as flags to add to the command. What a flag of its own has said is said by that flag
// again, of which the last one counts; --set would contradict it.
std::string flag_of(const std::string& setting, const SplitFlags& given) {
  const size_t equals = setting.find('=');
  const std::string_view key = std::string_view(setting).substr(0, equals);
  const std::string_view value = std::string_view(setting).substr(equals + 1);
  for (const SplitFlags::Size& size : given.sizes) {
    if (size.key == key && !size.value.empty()) return fmt::format(" {} {}", size.flag, value);
  }
  for (const SplitFlags::Word& word : given.words) {
    if (word.key == key && !word.value.empty()) return fmt::format(" {} {}", word.flag, value);
  }
  return " --set " + setting;
}

bool by_flag(const std::string& setting, const SplitFlags& given) {
  return !flag_of(setting, given).starts_with(" --set ");
}

std::string added_flags(const FitChange& change, const SplitFlags& given) {
  std::string flags;
  for (const std::string& setting : change.settings) flags += flag_of(setting, given);
  return flags.empty() ? flags : flags.substr(1);
}

// --mesh and other ways to say an axis exclude each other, so what changes of the split is another
// mesh, to give instead.
std::string mesh_flags(const FitChange& change, std::string_view mesh, const SplitFlags& given) {
  constexpr std::string_view kParallel = "parallel.";
  const ParallelSpec& p = change.spec.parallel;
  std::map<std::string, std::string, std::less<>> keys;
  const auto read = [&](std::string_view setting) {
    const size_t equals = setting.find('=');
    keys[std::string(trim(setting.substr(0, equals)))] = trim(setting.substr(equals + 1));
  };
  for (const std::string_view piece : split(mesh, ',')) read(piece);
  std::string others;
  for (const std::string& setting : change.settings) {
    if (setting.starts_with(kParallel) && !by_flag(setting, given)) {
      read(std::string_view(setting).substr(kParallel.size()));
    } else {
      others += flag_of(setting, given);
    }
  }
  for (const auto& [axis, size] : {std::pair{"pp", p.pp},
                                   {"dp", p.dp},
                                   {"fsdp", p.fsdp},
                                   {"cp", p.cp},
                                   {"tp", p.tp},
                                   {"ep", p.ep}}) {
    keys[axis] = std::to_string(size);
    if (size == 1) keys.erase(axis);
  }
  std::vector<std::string> pieces;
  for (const auto& [key, value] : keys) pieces.push_back(key + "=" + value);
  return fmt::format("--mesh {}{}", fmt::join(pieces, ","), others);
}

}  // namespace

std::string misfit_with_flags(const Plan& plan, const std::string& mesh, const SplitFlags& given) {
  return misfit_text(plan, [&](const FitChange& change) {
    return mesh.empty() ? added_flags(change, given) : mesh_flags(change, mesh, given);
  });
}

}  // namespace tessera
