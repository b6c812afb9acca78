#include "cli/gzip.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace tessera {
namespace {

TEST(GzipTest, GivesBackWhatWasPutIn) {
  for (const size_t size : {0UL, 1UL, 1000UL, 3000000UL}) {
    std::string text;
    for (size_t i = 0; i < size; ++i) text += static_cast<char>('a' + i * i % 23);
    const std::string bytes = gzip(text);
    EXPECT_EQ(gunzip(bytes), text) << size;
    EXPECT_EQ(bytes, gzip(text)) << "the same bytes every time";
    EXPECT_EQ(bytes.substr(0, 3), "\x1f\x8b\x08") << "gzip's mark";
    EXPECT_EQ(bytes.substr(4, 4), std::string(4, '\0')) << "no time";
  }
}

TEST(GzipTest, RefusesWhatIsNotGzip) {
  EXPECT_THROW(gunzip("not gzip"), Error);
  EXPECT_THROW(gunzip(gzip("cut off").substr(0, 12)), Error);
}

}  // namespace
}  // namespace tessera
