#include "cli/gzip.h"

#include <zlib.h>

#include <limits>

#include "base/error.h"

namespace tessera {
namespace {

constexpr int kGzipWindow = 15 + 16;  // the largest, with gzip's header
constexpr size_t kChunkBytes = size_t{1} << 18;

// zlib counts what it is given in 32 bits; it reads, and never writes, through this pointer.
void give(z_stream& stream, const std::string& bytes) {
  require(bytes.size() <= std::numeric_limits<uInt>::max(),
          "{} bytes are too many to compress at once: write a smaller trace", bytes.size());
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));  // NOLINT
  stream.avail_in = static_cast<uInt>(bytes.size());
}

// Calls `step` until it says that the end is reached, and returns what came out.
template <typename Step>
std::string drain(z_stream& stream, const Step& step) {
  std::string out;
  int status = Z_OK;
  while (status == Z_OK) {
    const size_t before = out.size();
    out.resize(before + kChunkBytes);
    stream.next_out = reinterpret_cast<Bytef*>(out.data() + before);
    stream.avail_out = static_cast<uInt>(kChunkBytes);
    status = step(stream);
    out.resize(before + kChunkBytes - stream.avail_out);
  }
  require(status == Z_STREAM_END, "zlib stopped with {}", status);
  return out;
}

struct Deflater {
  z_stream stream{};
  Deflater() {
    const int status = deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kGzipWindow, 8,
                                    Z_DEFAULT_STRATEGY);
    require(status == Z_OK, "zlib does not start: {}", status);
  }
  Deflater(const Deflater&) = delete;
  Deflater& operator=(const Deflater&) = delete;
  ~Deflater() { (void)deflateEnd(&stream); }
};

struct Inflater {
  z_stream stream{};
  Inflater() {
    const int status = inflateInit2(&stream, kGzipWindow);
    require(status == Z_OK, "zlib does not start: {}", status);
  }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  ~Inflater() { (void)inflateEnd(&stream); }
};

}  // namespace

std::string gzip(const std::string& text) {
  Deflater deflater;
  give(deflater.stream, text);
  return drain(deflater.stream, [](z_stream& stream) { return deflate(&stream, Z_FINISH); });
}

std::string gunzip(const std::string& bytes) {
  Inflater inflater;
  give(inflater.stream, bytes);
  return drain(inflater.stream, [](z_stream& stream) { return inflate(&stream, Z_NO_FLUSH); });
}

}  // namespace tessera
