// Does a data file look like text? Its bytes are tokens either way; who trains on UTF-16 or on an
// archive rarely means to.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace tessera {

// Empty, or what speaks against text in the beginning of a file: "begins with the mark of UTF-16".
std::string text_doubt(std::string_view beginning);

// A sentence about the file, from its first bytes. Empty for text, for a folder, and for what
// cannot be read: that is found out elsewhere.
std::string data_note(const std::filesystem::path& path);

}  // namespace tessera
