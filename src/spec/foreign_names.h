// What other systems call the keys of a run file: people who come from them type those names.
#pragma once

#include <string>
#include <string_view>

namespace tessera {

// The key that a name of Megatron-LM, torchtitan, DeepSpeed, nanotron or Hugging Face means here:
// "tensor_model_parallel_size" is "parallel.tp". Dashes count as underscores, letters in any case.
// Empty: none. Also for the names of our own keys without their section: "steps" is "train.steps".
std::string key_called(std::string_view name);

// "; here it is train.micro_batch", with a word about it where the two are not quite the same.
// Empty where key_called() is.
std::string foreign_name_advice(std::string_view name);

// What a value is called here: "bfloat16" is "bf16", "gpu" is "cuda". Empty: nothing else.
std::string_view value_called(std::string_view value);

}  // namespace tessera
