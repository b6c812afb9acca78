#include "cli/gzip.h"

#include <zlib.h>

#include <limits>

#include "base/error.h"

namespace tessera {
namespace {

constexpr int kGzipWindow = 15 + 16;  // the largest, with gzip's header
constexpr size_t kChunkBytes = size_t{1} << 18;

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
  // zlib counts what it is given in 32 bits.
  require(text.size() <= std::numeric_limits<uInt>::max(),
          "{} bytes are too many to compress at once: write a smaller trace", text.size());
  Deflater deflater;
  z_stream& stream = deflater.stream;
  // zlib reads, and never writes, through this pointer.
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  std::string out;
  int status = Z_OK;
  while (status == Z_OK) {
    const size_t before = out.size();
    out.resize(before + kChunkBytes);
    stream.next_out = reinterpret_cast<Bytef*>(out.data() + before);
    stream.avail_out = static_cast<uInt>(kChunkBytes);
    status = deflate(&stream, Z_FINISH);
    out.resize(before + kChunkBytes - stream.avail_out);
  }
  require(status == Z_STREAM_END, "zlib stopped with {}", status);
  return out;
}

std::string gunzip(std::string_view bytes, size_t most) {
  require(bytes.size() <= std::numeric_limits<uInt>::max(), "{} bytes are too many to unpack",
          bytes.size());
  Inflater inflater;
  z_stream& stream = inflater.stream;
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  std::string out;
  int status = Z_OK;
  while (status == Z_OK) {
    const size_t before = out.size();
    require(before <= most, "what is compressed has more than {} bytes", most);
    out.resize(before + kChunkBytes);
    stream.next_out = reinterpret_cast<Bytef*>(out.data() + before);
    stream.avail_out = static_cast<uInt>(kChunkBytes);
    status = inflate(&stream, Z_NO_FLUSH);
    out.resize(before + kChunkBytes - stream.avail_out);
  }
  require(status == Z_STREAM_END && out.size() <= most,
          "the compressed bytes are damaged or cut off (zlib: {})", status);
  return out;
}

}  // namespace tessera
