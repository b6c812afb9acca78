#include "requests/answer.h"

#include <fmt/format.h>
#include <stdlib.h>

#include <algorithm>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>

#include "base/error.h"
#include "base/testing/peak_memory.h"
#include "requests/well_formed.h"

namespace tessera::testing {
namespace {

namespace fs = std::filesystem;

// Processor time, so that a busy machine does not count. A search takes all cores.
constexpr double kMostSeconds = 5;
constexpr double kMostSecondsOfSearch = 20;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr double kSlowness = 20;
constexpr int64_t kMostBytes = int64_t{16} << 30;  // shadow memory counts
#else
constexpr double kSlowness = 1;
constexpr int64_t kMostBytes = int64_t{1} << 30;
#endif

std::string contents(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return std::move(text).str();
}

double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

bool has_word(const Request& request, std::string_view word) {
  return std::find(request.words.begin(), request.words.end(), word) != request.words.end();
}

std::string wrong_code(const Request& request, const Answer& answer) {
  const bool fits_not = answer.code == static_cast<int>(ExitCode::kDoesNotFit);
  const bool failed = answer.code == static_cast<int>(ExitCode::kFailed);
  const bool known = answer.code == 0 || answer.code == static_cast<int>(ExitCode::kUsage) ||
                     fits_not || (failed && request.may_fail);
  if (!known) return fmt::format("exit code {}", answer.code);
  if (answer.err.find("bug in Tessera") != std::string::npos) return "a bug";
  const bool refused = answer.err.find("tessera: error: ") != std::string::npos;
  // A search that finds nothing says so in its report.
  const bool reports = fits_not && request.words.front() == "search";
  if (answer.code != 0 && !refused && !reports) return "no message";
  if (answer.code == 0 && refused) return "a message, but exit code 0";
  return "";
}

std::string wrong_output(const Request& request, const Answer& answer) {
  const bool shows = request.words.front() == "show";
  // What is not finite is a lesson of this topic.
  if (shows && has_word(request, "numbers")) return "";
  if (std::string wrong = bad_number_in(answer.out); !wrong.empty()) return wrong;
  // A cell that nothing has reached is null there.
  if (shows && has_word(request, "collective")) return "";
  if (has_word(request, "--json") && !has_word(request, "--program") && !answer.out.empty() &&
      answer.out.front() == '{') {
    return why_no_json(answer.out);
  }
  return "";
}

std::string wrong_file(const std::string& name, const std::string& text) {
  if (std::string wrong = bad_number_in(text); !wrong.empty()) return wrong;
  if (name.ends_with(".svg")) return why_no_xml(text);
  if (name.ends_with(".json")) return why_no_json(text);
  return "";
}

}  // namespace

Workplace::Workplace() : before_(fs::current_path()) {
  std::string name = (fs::temp_directory_path() / "tessera-requests-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("cannot create " + name);
  folder_ = name;
  fs::current_path(folder_);
}

Workplace::~Workplace() {
  std::error_code ignored;
  fs::current_path(before_, ignored);
  fs::remove_all(folder_, ignored);
}

Answer Workplace::ask(const Request& request) const {
  for (const auto& [name, text] : request.files) std::ofstream(name, std::ios::binary) << text;
  const double begin = cpu_seconds();
  const PeakMemory memory;
  Answer answer;
  static_cast<Ended&>(answer) = run_in_process(request.words);
  answer.cpu_s = cpu_seconds() - begin;
  answer.peak_bytes = memory.bytes();
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder_)) {
    const std::string name = fs::relative(entry.path(), folder_).string();
    if (entry.is_regular_file() && !request.files.contains(name)) {
      answer.written[name] = contents(entry.path());
    }
  }
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_)) {
    fs::remove_all(entry.path());
  }
  return answer;
}

std::string as_method(const std::string& printed) {
  auto json = nlohmann::ordered_json::parse(printed, nullptr, false);
  if (!json.is_object() || json.value("kind", "") != "serve_plan") return printed;
  json.erase("prediction");
  return json.dump(2) + "\n";
}

std::string bytes_of(const Answer& answer) {
  std::string bytes = fmt::format("{}\n{}{}", answer.code, answer.out, answer.err);
  for (const auto& [name, text] : answer.written) bytes += fmt::format("{}\n{}", name, text);
  return bytes;
}

std::string complaint(const Request& request, const Answer& answer) {
  if (std::string wrong = wrong_code(request, answer); !wrong.empty()) return wrong;
  if (std::string wrong = wrong_output(request, answer); !wrong.empty()) return wrong;
  for (const auto& [name, text] : answer.written) {
    const std::string wrong = wrong_file(name, text);
    if (!wrong.empty()) return fmt::format("{}: {}", name, wrong);
  }
  const bool searches = request.words.front() == "search";
  const double most_s = kSlowness * (searches ? kMostSecondsOfSearch : kMostSeconds);
  if (answer.cpu_s > most_s) {
    return fmt::format("it took {:.1f} s, more than {:.0f}", answer.cpu_s, most_s);
  }
  if (answer.peak_bytes > kMostBytes) {
    return fmt::format("it held {} MiB, more than {}", answer.peak_bytes >> 20, kMostBytes >> 20);
  }
  return "";
}

std::string text_of(const Request& request) {
  std::string text = "tessera";
  for (const std::string& word : request.words) text += fmt::format(" '{}'", word);
  for (const auto& [name, contents] : request.files) {
    text += fmt::format("\n---- {}\n{}\n----", name, contents.substr(0, 3000));
  }
  return text;
}

}  // namespace tessera::testing
