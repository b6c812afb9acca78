// What words of published runs mean: the rules of catalogue/published/words.toml, and the texts of
// the other files there.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tessera {

// The text of catalogue/published/NAME.toml.
std::string_view published_file(std::string_view name);

std::string lower(std::string text);

// What `text`, in small letters, means by the first rule of the topic that fits; empty: nothing.
std::string meaning(std::string_view topic, std::string_view text);
// Whether any rule of the topic with this meaning fits.
bool means(std::string_view topic, std::string_view text, std::string_view wanted);
// Where in the text the first word that fits is, with its meaning; npos: nowhere.
struct FoundWord {
  size_t at = std::string::npos;
  std::string meaning;
};
FoundWord find_word(std::string_view topic, std::string_view text);

}  // namespace tessera
