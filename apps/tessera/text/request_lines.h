// A file of requests, one on each line, as JSON.
#pragma once

#include <cstdint>
#include <fstream>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace tessera {

struct RequestLine {
  int64_t number = 0;  // of the line in the file, from 1
  std::string text;
};

// Reads line by line: the file may be larger than the memory.
class RequestLines {
 public:
  // Throws ConfigError for a file that cannot be read.
  explicit RequestLines(const std::string& path);

  // Nothing: the end. Blank lines are passed over; of a line that no request is as long as, so much
  // is kept that it is refused.
  std::optional<RequestLine> next();

 private:
  std::ifstream in_;
  std::string path_;
  std::vector<char> buffer_;
  int64_t number_ = 0;
};

// Tells one line from another: 16 digits of its SHA-256.
std::string mark_of(const RequestLine& line);

// {"custom_id": ...} or {"id": ...}, as the request has it, or {}.
nlohmann::ordered_json name_of_request(const RequestLine& line);
// What is asked, as a body of /v1/completions or /v1/chat/completions: the line itself, or the
// "body" of one that is written for batches of OpenAI's API; without what is no part of it there.
// Throws ConfigError where it is no JSON object.
nlohmann::ordered_json body_of_request(const RequestLine& line);

// The lines of all the file; nothing where it cannot be read twice, such as a pipe.
std::optional<int64_t> count_requests(const std::string& path);

}  // namespace tessera
