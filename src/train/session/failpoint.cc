#include "train/session/failpoint.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <thread>

#include "base/error.h"
#include "base/text/printable.h"
#include "base/text/text.h"

namespace tessera {
namespace {

constexpr std::array<std::string_view, 22> kPoints = {
    "rdzv.join",    "comm.init",     "load",          "load.chunk", "step.begin",
    "step.forward", "step.backward", "step.update",   "step.end",   "step.collective",
    "eval",         "save.stage",    "save.change",   "save.write", "save.sync",
    "save.rename",  "snapshot.copy", "snapshot.seal", "end",        "serve.load",
    "serve.frame",  "serve.result"};

int64_t number(std::string_view text, const std::string& whole) {
  int64_t value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  require_config(failure == std::errc() && end == text.data() + text.size() && value >= 0,
                 "TESSERA_FAULT={}: {} is no whole number", shortened(whole), in_quotes(text));
  return value;
}

Fault::Act act_named(std::string_view text, const std::string& whole) {
  using Act = Fault::Act;
  constexpr std::array<std::pair<std::string_view, Act>, 5> kActs = {{{"kill", Act::kKill},
                                                                      {"stop", Act::kStop},
                                                                      {"spin", Act::kSpin},
                                                                      {"fail", Act::kFail},
                                                                      {"flip", Act::kFlip}}};
  for (const auto& [name, act] : kActs) {
    if (name == text) return act;
  }
  throw ConfigError(fmt::format(
      "TESSERA_FAULT={}: act {} is none of kill, stop, delay=MS, spin, fail, errno=NAME, flip",
      shortened(whole), in_quotes(text)));
}

int errno_named(std::string_view text, const std::string& whole) {
  constexpr std::array<std::pair<std::string_view, int>, 5> kErrors = {
      {{"ENOSPC", ENOSPC}, {"EIO", EIO}, {"EFBIG", EFBIG}, {"EROFS", EROFS}, {"EDQUOT", EDQUOT}}};
  for (const auto& [name, number] : kErrors) {
    if (name == text) return number;
  }
  throw ConfigError(
      fmt::format("TESSERA_FAULT={}: errno {} is none of ENOSPC, EIO, EFBIG, EROFS, "
                  "EDQUOT",
                  shortened(whole), in_quotes(text)));
}

void set_key(Fault& fault, std::string_view key, std::string_view value, const std::string& whole) {
  if (key == "rank") {
    fault.rank = static_cast<int>(number(value, whole));
  } else if (key == "step") {
    fault.step = number(value, whole);
  } else if (key == "at") {
    fault.at = number(value, whole);
  } else if (key == "generation") {
    fault.generation = static_cast<int>(number(value, whole));
  } else if (key == "act" && value.starts_with("delay=")) {
    fault.act = Fault::Act::kDelay;
    fault.delay = std::chrono::milliseconds(number(value.substr(6), whole));
  } else if (key == "act" && value.starts_with("errno=")) {
    fault.act = Fault::Act::kErrno;
    fault.error = errno_named(value.substr(6), whole);
  } else if (key == "act") {
    fault.act = act_named(value, whole);
  } else {
    throw ConfigError(
        fmt::format("TESSERA_FAULT={}: unknown key {}; use rank, step, at, generation, act",
                    shortened(whole), in_quotes(key)));
  }
}

Fault parse_fault(std::string_view text, const std::string& whole) {
  Fault fault;
  const size_t colon = text.find(':');
  fault.point = std::string(text.substr(0, colon));
  require_config(std::find(kPoints.begin(), kPoints.end(), fault.point) != kPoints.end() &&
                     colon != std::string_view::npos,
                 "TESSERA_FAULT={}: {} is no point; use POINT:act=kill with one of {}",
                 shortened(whole), in_quotes(fault.point), fmt::join(kPoints, ", "));
  for (const std::string_view pair : split(text.substr(colon + 1), ',')) {
    const size_t equals = std::min(pair.find('='), pair.size());
    set_key(fault, pair.substr(0, equals), pair.substr(std::min(equals + 1, pair.size())), whole);
  }
  return fault;
}

}  // namespace

std::vector<Fault> parse_faults(const std::string& text) {
  std::vector<Fault> faults;
  if (text.empty()) return faults;
  for (const std::string_view one : split(text, ';')) faults.push_back(parse_fault(one, text));
  return faults;
}

Failpoints::Failpoints(const std::vector<Fault>& all, int rank, int generation) {
  for (const Fault& fault : all) {
    const bool mine = (fault.rank < 0 || fault.rank == rank) &&
                      (fault.generation == 0 || fault.generation == generation);
    if (mine) faults_.emplace_back(fault);
  }
}

bool Failpoints::armed(std::string_view prefix, int64_t step) const {
  return std::any_of(faults_.begin(), faults_.end(), [&](const Armed& one) {
    return one.fault.point.starts_with(prefix) &&
           (one.fault.step < 0 || step < 0 || one.fault.step == step);
  });
}

bool Failpoints::pass(std::string_view point, int64_t step) {
  bool flips = false;
  for (Armed& one : faults_) {
    const Fault& fault = one.fault;
    if (fault.point != point || (fault.step >= 0 && step >= 0 && fault.step != step)) continue;
    if (fault.at != 0 && ++one.passed != fault.at) continue;
    switch (fault.act) {
      case Fault::Act::kKill:
        ::raise(SIGKILL);
        break;
      case Fault::Act::kStop:
        ::raise(SIGSTOP);
        break;
      case Fault::Act::kDelay:
        std::this_thread::sleep_for(fault.delay);
        break;
      case Fault::Act::kSpin:
        for (volatile bool spins = true; spins;) {
        }
        break;
      case Fault::Act::kFail:
        throw Error(fmt::format("TESSERA_FAULT asks for an error at {}", point));
      case Fault::Act::kErrno:
        throw IoError(fmt::format("TESSERA_FAULT asks for an error at {}: {}", point,
                                  std::strerror(fault.error)));
      case Fault::Act::kFlip:
        flips = true;
        break;
    }
  }
  return flips;
}

}  // namespace tessera
