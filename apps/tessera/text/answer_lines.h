// The file that answers go to: one line of JSON for each request, in the order of the requests, so
// that what is there says how far the work is.
//   {"line": 3, "custom_id": "a", "request": "0123456789abcdef", "response": {...}}
//   {"line": 4, "id": 17, "request": "...", "error": {"message": ..., "code": ...}}
// "line" is that of the request in its file, "request" is mark_of() it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "cli/output_flags.h"
#include "serve/api/api_error.h"
#include "text/request_lines.h"

namespace tessera {

inline constexpr OutputKind kAnswersOutput = {"answers (JSON lines)", ".jsonl", "answers.jsonl",
                                              true};

// `response`: JSON.
std::string line_of_response(const RequestLine& request, std::string_view response);
std::string line_of_error(const RequestLine& request, const serve::ApiError& error);

class AnswerLines {
 public:
  // Nobody else may write it meanwhile. Throws ConfigError where somebody does, IoError where the
  // disk refuses.
  AnswerLines(const std::string& path, bool overwrite);
  ~AnswerLines();
  AnswerLines(const AnswerLines&) = delete;
  AnswerLines& operator=(const AnswerLines&) = delete;

  struct Found {
    int64_t answers = 0;
    int64_t errors = 0;  // of them
  };
  // What is there already, in front of which `requests` then stands; a line that was cut off is
  // taken away. Throws ConfigError where it holds anything but answers to the first of them.
  Found go_on(RequestLines& requests);

  void append(const std::string& line);

 private:
  std::string path_;
  int file_ = -1;
  bool is_regular_ = false;
};

}  // namespace tessera
