#include "kernels/cuda/libraries/matmul_choices.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/error.h"

namespace tessera::kernels::cuda {
namespace {

constexpr size_t kDigits = 16;  // of one 64-bit word

std::string to_hex(const MatmulChoices::Algorithm& algorithm) {
  std::string text;
  for (const uint64_t word : algorithm) text += fmt::format("{:016x}", word);
  return text;
}

std::optional<MatmulChoices::Algorithm> from_hex(const std::string& text) {
  MatmulChoices::Algorithm algorithm{};
  if (text.size() != algorithm.size() * kDigits) return std::nullopt;
  for (size_t i = 0; i < algorithm.size(); ++i) {
    const char* const begin = text.data() + i * kDigits;
    const auto [end, error] = std::from_chars(begin, begin + kDigits, algorithm[i], 16);
    if (error != std::errc{} || end != begin + kDigits) return std::nullopt;
  }
  return algorithm;
}

// In one call at the end of the file: lines of other processes stay whole.
void append(const std::string& path, const std::string& line) {
  const int file = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
  require(file >= 0, "{}: cannot be written: {}", path, std::strerror(errno));
  const ssize_t written = ::write(file, line.data(), line.size());
  ::close(file);
  require(written == static_cast<ssize_t>(line.size()), "{}: cannot be written to its end", path);
}

}  // namespace

MatmulChoices::MatmulChoices(std::string device, int version) {
  std::replace(device.begin(), device.end(), '\t', ' ');
  prefix_ = fmt::format("{}\t{}\t", device, version);
}

void MatmulChoices::open(const std::string& path) {
  path_ = path;
  if (!std::filesystem::exists(path)) return;
  std::ifstream file(path);
  require(file.good(), "{}: cannot be read", path);
  for (std::string line; std::getline(file, line);) read_line(line);
}

void MatmulChoices::read_line(const std::string& line) {
  if (!line.starts_with(prefix_)) return;
  const size_t product_end = line.find('\t', prefix_.size());
  if (product_end == std::string::npos) return;
  const size_t algorithm_end = line.find('\t', product_end + 1);
  if (algorithm_end == std::string::npos) return;
  const auto algorithm = from_hex(line.substr(product_end + 1, algorithm_end - product_end - 1));
  if (!algorithm) return;
  known_[line.substr(prefix_.size(), product_end - prefix_.size())] = *algorithm;
}

std::optional<MatmulChoices::Algorithm> MatmulChoices::find(const std::string& product) const {
  const auto found = known_.find(product);
  if (found == known_.end()) return std::nullopt;
  return found->second;
}

void MatmulChoices::add(const std::string& product, const Algorithm& algorithm,
                        double microseconds) {
  known_[product] = algorithm;
  if (path_.empty()) return;
  append(path_,
         fmt::format("{}{}\t{}\t{:.1f}\n", prefix_, product, to_hex(algorithm), microseconds));
}

}  // namespace tessera::kernels::cuda
