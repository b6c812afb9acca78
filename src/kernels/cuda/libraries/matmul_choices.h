// Which algorithm of cuBLASLt was measured to be the fastest, product by product; in memory, and in
// a file that many processes may read and add to.
//
// A line of the file: device, version of cuBLASLt, product, algorithm as hexadecimal digits,
// microseconds; separated by tabs. An algorithm means something only to that device and version;
// other lines are kept and passed over. Of two lines of one product the later counts.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace tessera::kernels::cuda {

class MatmulChoices {
 public:
  using Algorithm = std::array<uint64_t, 8>;

  MatmulChoices(std::string device, int version);

  // Reads what is there, and appends to it from now on. Throws Error where `path` exists but
  // cannot be read.
  void open(const std::string& path);

  [[nodiscard]] std::optional<Algorithm> find(const std::string& product) const;
  // Throws Error where the file cannot be written.
  void add(const std::string& product, const Algorithm& algorithm, double microseconds);

 private:
  void read_line(const std::string& line);

  std::string prefix_;  // of our lines
  std::string path_;    // empty: in memory only
  std::map<std::string, Algorithm> known_;
};

}  // namespace tessera::kernels::cuda
