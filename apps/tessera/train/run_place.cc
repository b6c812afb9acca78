#include "train/run_place.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text/text.h"

namespace tessera {
namespace {

constexpr std::string_view kVariable = "TESSERA_RUN_DIR";

// "0.42 s", "20 s", "12 min", "3 h 5 min".
std::string duration_text(double seconds) {
  if (seconds < 0.0005) return "0 s";  // a run that had done all its steps before
  if (seconds < 9.5) return fmt::format("{:.2g} s", seconds);
  if (seconds < 119.5) return fmt::format("{:.0f} s", seconds);
  const auto minutes = static_cast<int64_t>(std::llround(seconds / 60));
  if (minutes < 120) return fmt::format("{} min", minutes);
  return fmt::format("{} h {} min", minutes / 60, minutes % 60);
}

// `text` as one word of a shell's command line.
std::string shell_word(const std::string& text) {
  const auto plain = [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
           std::string_view("/._-+,:=@%").find(c) != std::string_view::npos;
  };
  if (!text.empty() && std::all_of(text.begin(), text.end(), plain)) return text;
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return word + "'";
}

}  // namespace

RunDirectoryRequest directory_request(const TrainCommandOptions& options, const RunSpec& spec) {
  return {.path = spec.logging.run_dir,
          .name = run_name_of(options.source.file),
          .weights_from = spec.model.hf,
          .resume = !options.resume.empty(),
          .overwrite = options.overwrite};
}

ClaimedDirectory claim_directory(const TrainCommandOptions& options, RunSpec& spec,
                                 Console& console) {
  const RunDirectoryRequest request = directory_request(options, spec);
  ClaimedDirectory claimed = claim_run_directory(request);
  const std::string first_choice = request.path.empty() ? "runs/" + request.name : request.path;
  if (claimed.path() != first_choice && !console.quiet) {
    console.err << fitted_err(console, fmt::format("tessera: this run goes to {}, since {} holds "
                                                   "one\n",
                                                   claimed.path(), first_choice))
                << std::flush;
  }
  spec.logging.run_dir = claimed.path();
  return claimed;
}

void tell_run_directory(const RunSpec& spec, Environment& environment) {
  environment.insert_or_assign(std::string(kVariable), spec.logging.run_dir);
}

void hear_run_directory(const Environment& environment, RunSpec& spec) {
  const auto told = environment.find(kVariable);
  require(told != environment.end(),
          "{} is not set: ranks are started by tessera train, mpirun or torchrun", kVariable);
  spec.logging.run_dir = told->second;
}

std::string last_lines(const TrainSummary& summary) {
  const auto& measured = summary.measured;
  const std::string steps = count_of(measured.at("steps").get<int64_t>(), "step");
  return fmt::format(
      "\n{}: loss {:.4f} after {}, {}\nNext: tessera generate --run {} --prompt \"Once upon a "
      "time\"\n",
      summary.run_dir, measured.at("final_loss").get<double>(), steps,
      duration_text(measured.at("seconds").get<double>()), shell_word(summary.run_dir));
}

}  // namespace tessera
