#include "data/tokenizer/unicode/grapheme.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tessera {
namespace {

std::vector<std::string> clusters_of(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) text += part;
  std::vector<std::string> clusters;
  for (size_t at = 0; at < text.size();) {
    const size_t end = end_of_cluster(text, at);
    clusters.push_back(text.substr(at, end - at));
    at = end;
  }
  return clusters;
}

// Each text is the list of its clusters.
TEST(GraphemeTest, CutsWhereTheStandardDoes) {
  const std::vector<std::vector<std::string>> texts = {
      {"a", "b"},
      {"\r\n", "\n", "\r", "\r"},
      {std::string(1, '\0'), "\xCC\x81"},  // nothing joins a control character
      {"a\xCC\x81\xE2\x80\x8D", "b"},      // an accent and a joiner
      {"\xD8\x80"
       "a",
       "b"},                                                     // U+0600 stands before
      {"\xE1\x84\x80\xE1\x85\xA1\xE1\x86\xA8", "\xE1\x84\x80"},  // Hangul, letter by letter
      {"\xEA\xB0\x80\xE1\x86\xA8", "\xEA\xB0\x81\xE1\x86\xA8", "\xEA\xB0\x80"},
      {"\xEA\xB0\x81", "\xE1\x85\xA1"},  // no vowel after a closed syllable
      {"\xF0\x9F\x87\xA9\xF0\x9F\x87\xAA", "\xF0\x9F\x87\xA9\xF0\x9F\x87\xAA", "\xF0\x9F\x87\xA9"},
      // A family; a picture with its colour; a joiner too many, or after a letter.
      {"\xF0\x9F\x91\xA9\xE2\x80\x8D\xF0\x9F\x91\xA9\xE2\x80\x8D\xF0\x9F\x91\xA7", "x"},
      {"\xF0\x9F\x91\xA9\xF0\x9F\x8F\xBD\xE2\x80\x8D\xF0\x9F\x91\xA9"},
      {"\xF0\x9F\x91\xA9\xE2\x80\x8D\xE2\x80\x8D", "\xF0\x9F\x91\xA9"},
      {"a\xE2\x80\x8D", "\xF0\x9F\x91\xA9"},
      // Consonants of Devanagari: joined by a virama, apart without it or behind a non-joiner.
      {"\xE0\xA4\x95\xE0\xA5\x8D\xE0\xA4\xB7", "\xE0\xA4\x95", "\xE0\xA4\xB7"},
      {"\xE0\xA4\x95\xE0\xA5\x8D\xE2\x80\x8C", "\xE0\xA4\xB7"},
      {"\xE0\xA4\x95\xE0\xA5\x8D\xE2\x80\x8D\xE0\xA4\xB7"},
      {"a\xE0\xA5\x8D", "\xE0\xA4\xB7"},
  };
  for (const std::vector<std::string>& text : texts) {
    EXPECT_EQ(clusters_of(text), text) << text.front();
  }
}

}  // namespace
}  // namespace tessera
