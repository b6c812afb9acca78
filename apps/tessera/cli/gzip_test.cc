#include "cli/gzip.h"

#include <gtest/gtest.h>
#include <zlib.h>

namespace tessera {
namespace {

// As zlib reads it; `size` bytes are expected.
std::string gunzip(std::string bytes, size_t size) {
  std::string text(size + 1, '\0');  // room for one too many
  z_stream stream{};
  EXPECT_EQ(inflateInit2(&stream, 15 + 16), Z_OK);
  stream.next_in = reinterpret_cast<Bytef*>(bytes.data());
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(text.data());
  stream.avail_out = static_cast<uInt>(text.size());
  EXPECT_EQ(inflate(&stream, Z_FINISH), Z_STREAM_END);
  text.resize(stream.total_out);
  EXPECT_EQ(inflateEnd(&stream), Z_OK);
  return text;
}

TEST(GzipTest, GivesBackWhatWasPutIn) {
  for (const size_t size : {0UL, 1UL, 1000UL, 3000000UL}) {
    std::string text;
    for (size_t i = 0; i < size; ++i) text += static_cast<char>('a' + i * i % 23);
    const std::string bytes = gzip(text);
    EXPECT_EQ(gunzip(bytes, size), text) << size;
    EXPECT_EQ(bytes, gzip(text)) << "the same bytes every time";
    EXPECT_EQ(bytes.substr(0, 3), "\x1f\x8b\x08") << "gzip's mark";
    EXPECT_EQ(bytes.substr(4, 4), std::string(4, '\0')) << "no time";
  }
}

}  // namespace
}  // namespace tessera
