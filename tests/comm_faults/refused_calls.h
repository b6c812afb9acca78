// A system that says no: system calls that are refused from now on in this process.
#pragma once

namespace tessera::testing {

// Every later call of `number` fails with `error`. False where the system cannot do that.
[[nodiscard]] bool refuse_system_call(int number, int error);

// No descriptor can be opened from now on.
void refuse_new_descriptors();

}  // namespace tessera::testing
