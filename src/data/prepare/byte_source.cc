#include "data/prepare/byte_source.h"

#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"

namespace tessera {
namespace {

constexpr size_t kBlock = size_t{256} << 10;

class PlainBytes final : public ByteSource {
 public:
  explicit PlainBytes(const std::filesystem::path& path)
      : path_(path.string()), file_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    require(file_ >= 0, "cannot open '{}': {}", path_, std::strerror(errno));
  }
  ~PlainBytes() override { ::close(file_); }
  PlainBytes(const PlainBytes&) = delete;
  PlainBytes& operator=(const PlainBytes&) = delete;
  PlainBytes(PlainBytes&&) = delete;
  PlainBytes& operator=(PlainBytes&&) = delete;

  size_t read(std::span<char> out) override {
    size_t filled = 0;
    while (filled < out.size()) {
      const ssize_t count = ::read(file_, out.data() + filled, out.size() - filled);
      if (count < 0 && errno == EINTR) continue;
      require(count >= 0, "cannot read '{}' after byte {}: {}", path_, bytes_read_,
              std::strerror(errno));
      if (count == 0) break;
      filled += static_cast<size_t>(count);
      bytes_read_ += count;
    }
    return filled;
  }
  [[nodiscard]] int64_t bytes_read() const override { return bytes_read_; }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
  int file_;
  int64_t bytes_read_ = 0;
};

// What both kinds of packed files share: blocks of the file, and where one of them is damaged.
class PackedBytes : public ByteSource {
 public:
  explicit PackedBytes(const std::filesystem::path& path) : file_(path), block_(kBlock) {}
  [[nodiscard]] int64_t bytes_read() const override { return file_.bytes_read() - left_; }

 protected:
  // False at the end of the file.
  bool next_block() {
    size_ = file_.read(block_);
    left_ = static_cast<int64_t>(size_);
    return size_ > 0;
  }
  [[noreturn]] void fail(std::string_view what) const {
    throw ConfigError(fmt::format("'{}': {} near byte {}: copy or pack it again", file_.path(),
                                  what, bytes_read()));
  }
  [[nodiscard]] std::span<const char> rest() const {
    return std::span(block_).subspan(size_ - static_cast<size_t>(left_),
                                     static_cast<size_t>(left_));
  }
  void use(size_t bytes) { left_ -= static_cast<int64_t>(bytes); }

 private:
  PlainBytes file_;
  std::vector<char> block_;
  size_t size_ = 0;
  int64_t left_ = 0;  // of the block
};

class GzipBytes final : public PackedBytes {
 public:
  explicit GzipBytes(const std::filesystem::path& path) : PackedBytes(path) {
    constexpr int kGzipOnly = 16 + MAX_WBITS;
    require(inflateInit2(&stream_, kGzipOnly) == Z_OK, "not enough memory to unpack '{}'",
            path.string());
  }
  ~GzipBytes() override { inflateEnd(&stream_); }
  GzipBytes(const GzipBytes&) = delete;
  GzipBytes& operator=(const GzipBytes&) = delete;
  GzipBytes(GzipBytes&&) = delete;
  GzipBytes& operator=(GzipBytes&&) = delete;

  size_t read(std::span<char> out) override {
    size_t filled = 0;
    while (filled < out.size()) {
      if (rest().empty() && !next_block()) {
        if (inside_) fail("it is cut off: the packed text goes on");
        break;
      }
      if (!inside_) {
        // Tapes and some tools fill up with zeros behind the last part.
        const auto zeros = std::ranges::find_if(rest(), [](char c) { return c != 0; });
        if (zeros != rest().begin() && any_) {
          use(static_cast<size_t>(zeros - rest().begin()));
          continue;
        }
        any_ = true;
        inflateReset(&stream_);
        inside_ = true;
      }
      stream_.next_in =
          reinterpret_cast<Bytef*>(const_cast<char*>(rest().data()));  // zlib does not write there
      stream_.avail_in = static_cast<uInt>(rest().size());
      stream_.next_out = reinterpret_cast<Bytef*>(out.data() + filled);
      const size_t room = std::min(out.size() - filled, kMostAtOnce);
      stream_.avail_out = static_cast<uInt>(room);
      const size_t before = rest().size();
      const int result = inflate(&stream_, Z_NO_FLUSH);
      use(before - stream_.avail_in);
      filled += room - stream_.avail_out;
      if (result == Z_STREAM_END) {
        inside_ = false;
      } else if (result != Z_OK && result != Z_BUF_ERROR) {
        fail("its gzip is damaged");
      }
    }
    return filled;
  }

 private:
  static constexpr size_t kMostAtOnce = size_t{1} << 30;
  z_stream stream_{};
  bool inside_ = false;
  bool any_ = false;  // a part has begun
};

class ZstdBytes final : public PackedBytes {
 public:
  explicit ZstdBytes(const std::filesystem::path& path)
      : PackedBytes(path), stream_(ZSTD_createDStream()) {
    require(stream_ != nullptr, "not enough memory to unpack '{}'", path.string());
  }
  ~ZstdBytes() override { ZSTD_freeDStream(stream_); }
  ZstdBytes(const ZstdBytes&) = delete;
  ZstdBytes& operator=(const ZstdBytes&) = delete;
  ZstdBytes(ZstdBytes&&) = delete;
  ZstdBytes& operator=(ZstdBytes&&) = delete;

  size_t read(std::span<char> out) override {
    size_t filled = 0;
    while (filled < out.size()) {
      // Without input it still gives what it has unpacked already.
      const bool at_end = rest().empty() && !next_block();
      ZSTD_inBuffer in{rest().data(), rest().size(), 0};
      ZSTD_outBuffer to{out.data() + filled, out.size() - filled, 0};
      const size_t result = ZSTD_decompressStream(stream_, &to, &in);
      if (ZSTD_isError(result) != 0) fail(std::string("zstd says: ") + ZSTD_getErrorName(result));
      use(in.pos);
      filled += to.pos;
      if (to.pos > 0 || in.pos > 0) inside_ = result != 0;
      if (at_end && to.pos == 0) {
        if (inside_) fail("it is cut off: the packed text goes on");
        break;
      }
    }
    return filled;
  }

 private:
  ZSTD_DStream* stream_;
  bool inside_ = false;
};

}  // namespace

std::unique_ptr<ByteSource> open_bytes(const std::filesystem::path& path) {
  char head[4] = {};
  const size_t count = PlainBytes(path).read(head);
  const std::string_view first(head, count);
  if (first.starts_with("\x1f\x8b")) return std::make_unique<GzipBytes>(path);
  if (first == "\x28\xb5\x2f\xfd") return std::make_unique<ZstdBytes>(path);
  return std::make_unique<PlainBytes>(path);
}

}  // namespace tessera
