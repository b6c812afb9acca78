#include "text/answer_lines.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "base/error.h"
#include "base/text/text.h"
#include "serve/api/answer_json.h"

namespace tessera {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kBegin = "{\"line\":";
constexpr std::string_view kResponse = ",\"response\":", kError = ",\"error\":";

// {"line": 3, "custom_id": "a", "request": "0123456789abcdef"
std::string begun_line(const RequestLine& request) {
  Json head = {{"line", request.number}};
  head.update(name_of_request(request));
  head["request"] = mark_of(request);
  std::string text = serve::dump(head);
  text.pop_back();  // the brace that ends it
  return text;
}

[[noreturn]] void refuse_line(const std::string& path, int64_t number, const std::string& why) {
  throw ConfigError(
      fmt::format("--out is '{}', whose line {} {}: name another file, or --overwrite to begin it "
                  "anew",
                  path, number, why));
}

// Whether it is an error. Throws ConfigError where it is no answer to this request.
bool check_answer(const std::string& path, int64_t number, std::string_view line,
                  const std::optional<RequestLine>& request) {
  if (!line.starts_with(kBegin)) refuse_line(path, number, "is no answer of this command");
  if (!request.has_value()) refuse_line(path, number, "answers more requests than --in has");
  const std::string begun = begun_line(*request);
  const std::string_view rest = line.substr(std::min(line.size(), begun.size()));
  if (!line.starts_with(begun) || !(rest.starts_with(kResponse) || rest.starts_with(kError))) {
    refuse_line(path, number,
                fmt::format("answers another request than line {} of --in", request->number));
  }
  return rest.starts_with(kError);
}

// A line that was cut off begins so: what else ends without an end of its line is somebody else's.
bool may_be_begun(std::string_view text) {
  return text.starts_with(kBegin) || kBegin.starts_with(text);
}

}  // namespace

std::string line_of_response(const RequestLine& request, std::string_view response) {
  return fmt::format("{}{}{}}}", begun_line(request), kResponse, trim(response));
}

std::string line_of_error(const RequestLine& request, const serve::ApiError& error) {
  const std::string body = error.body();  // {"error": {...}}
  return begun_line(request) + "," + body.substr(body.find('{') + 1);
}

AnswerLines::AnswerLines(const std::string& path, bool overwrite) : path_(path) {
  file_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  // What can only be written, such as a pipe.
  if (file_ < 0) file_ = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  if (file_ < 0) throw IoError(fmt::format("cannot write '{}': {}", path, std::strerror(errno)));
  struct stat status = {};
  is_regular_ = ::fstat(file_, &status) == 0 && S_ISREG(status.st_mode);
  if (!is_regular_) return;
  if (::flock(file_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    ::close(file_);
    throw ConfigError(
        fmt::format("--out is '{}', which another tessera generate writes now: wait "
                    "for it, or name another file",
                    path));
  }
  if (overwrite && ::ftruncate(file_, 0) != 0) {
    throw IoError(fmt::format("cannot empty '{}': {}", path, std::strerror(errno)));
  }
}

AnswerLines::~AnswerLines() {
  if (file_ >= 0) ::close(file_);
}

AnswerLines::Found AnswerLines::go_on(RequestLines& requests) {
  Found found;
  if (!is_regular_) return found;
  std::ifstream in(path_, std::ios::binary);
  off_t whole = 0;  // bytes of complete lines
  for (std::string line; std::getline(in, line);) {
    const int64_t number = found.answers + 1;
    if (in.eof()) {
      if (!may_be_begun(line)) refuse_line(path_, number, "is no answer of this command");
      break;
    }
    found.errors += check_answer(path_, number, line, requests.next()) ? 1 : 0;
    ++found.answers;
    whole += std::ssize(line) + 1;
  }
  if (::ftruncate(file_, whole) != 0) {
    throw IoError(fmt::format("cannot shorten '{}': {}", path_, std::strerror(errno)));
  }
  return found;
}

void AnswerLines::append(const std::string& line) {
  const std::string text = line + "\n";
  for (size_t at = 0; at < text.size();) {
    const ssize_t written = ::write(file_, text.data() + at, text.size() - at);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      throw IoError(
          fmt::format("cannot write '{}': {}; what is there stays, and the same command "
                      "goes on with it",
                      path_, std::strerror(errno)));
    }
    at += static_cast<size_t>(written);
  }
}

}  // namespace tessera
