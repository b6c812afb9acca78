// Tables of bubble rates, as the papers on zero bubbles print them.
#pragma once

#include <optional>
#include <string>

namespace tessera {

// The part of a step in which the pipeline ranks wait, from the source's own profiled times of the
// passes; `column` is the table's name of a schedule ("1F1B-I"). Nothing for a model whose times
// the source does not give, or a schedule that is not generated here.
std::optional<double> published_bubble(const std::string& model, int ranks, int micro_batches,
                                       const std::string& column);

}  // namespace tessera
