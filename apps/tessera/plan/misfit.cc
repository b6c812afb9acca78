#include "plan/misfit.h"

#include <fmt/ranges.h>

#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"
#include "plan/report/misfit_text.h"

namespace tessera {
namespace {

// --mesh wins over --set, so what changes of the split is another mesh, to give instead.
std::string mesh_flags(const FitChange& change, std::string_view mesh) {
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
    if (setting.starts_with(kParallel)) {
      read(std::string_view(setting).substr(kParallel.size()));
    } else {
      others += " --set " + setting;
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

std::string misfit_with_flags(const Plan& plan, const std::string& mesh) {
  return misfit_text(plan, [&](const FitChange& change) {
    return mesh.empty() ? set_flags(change) : mesh_flags(change, mesh);
  });
}

}  // namespace tessera
