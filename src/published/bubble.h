// Tables of bubble rates, as the papers on zero bubbles print them.
#pragma once

#include <optional>
#include <string>

namespace tessera {

// Milliseconds of a whole stage for one micro-batch, and of a message to the next one.
struct ProfiledTimes {
  int layers = 0;  // of the model, with the embedding and the head counted as layers
  double forward = 0, input_grad = 0, weight_grad = 0, message = 0;
};

// As the source gives them. Nothing for a model or a number of ranks whose times it does not give.
std::optional<ProfiledTimes> profiled_times(const std::string& model, int ranks, int micro_batches);

// For other numbers of ranks: passes keep their proportions, and the message is what makes 1F1B's
// rate the table's. The other columns are then predictions.
std::optional<ProfiledTimes> derived_times(const std::string& model, int ranks, int micro_batches,
                                           double rate_of_1f1b);

// The part of a step in which the pipeline ranks wait; `column` is the table's name of a schedule
// ("1F1B-I"). Nothing for a schedule that is not generated here.
std::optional<double> published_bubble(const ProfiledTimes& times, int ranks, int micro_batches,
                                       const std::string& column);

}  // namespace tessera
