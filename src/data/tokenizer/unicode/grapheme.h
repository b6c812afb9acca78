// Clusters of characters that a reader takes for one (extended grapheme clusters, Unicode Standard
// Annex 29), of the Unicode that the reference library has.
#pragma once

#include <cstddef>
#include <string_view>

namespace tessera {

// Where the cluster ends that begins at `at`, in a text that is valid UTF-8 and longer than `at`.
size_t end_of_cluster(std::string_view text, size_t at);

}  // namespace tessera
