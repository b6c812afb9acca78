// Checks the runtime beside it: a module of its own, whose run() throws and catches in all the ways
// that C++ has, and gives the number of the first check that fails, from 1, or 0. wasm/traps.mjs
// calls it.
#include <array>
#include <exception>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

int alive = 0;
struct Counted {
  Counted() { ++alive; }
  Counted(const Counted&) { ++alive; }
  Counted& operator=(const Counted&) = default;
  ~Counted() { --alive; }
};

struct Left {
  virtual ~Left() = default;
  int left = 1;
};
struct Right {
  virtual ~Right() = default;
  int right = 2;
};
struct Both : Left, Right {
  Counted counted;
};

// What is hidden from the optimizer, which would know the outcome.
volatile int zero = 0;

template <typename Error, typename Body>
bool throws(const Body& body) {
  try {
    body();
  } catch (const Error&) {
    return true;
  }
  return false;
}

bool catches_by_value() {
  try {
    throw 42 + zero;
  } catch (int value) {
    return value == 42;
  }
}

bool catches_the_second_base() {
  try {
    throw Both();
  } catch (const Right& right) {
    return right.right == 2 && alive == 1;
  }
}

bool passes_by_other_types() {
  try {
    try {
      throw std::out_of_range("far");
    } catch (const std::bad_alloc&) {
      return false;
    } catch (const std::invalid_argument&) {
      return false;
    }
  } catch (const std::logic_error& error) {
    return std::string(error.what()) == "far";
  }
}

bool destroys_on_the_way() {
  const auto inner = [] {
    const Counted counted;
    const std::vector<Counted> more(3);
    if (alive != 4) return;
    throw std::runtime_error("x");
  };
  return throws<std::runtime_error>(inner) && alive == 0;
}

bool rethrows() {
  try {
    try {
      throw Both();
    } catch (...) {
      throw;
    }
  } catch (const Left& left) {
    return left.left == 1 && alive == 1;
  }
}

bool throws_while_catching() {
  try {
    try {
      throw Both();
    } catch (const Left&) {
      throw std::runtime_error("second");
    }
  } catch (const std::exception& error) {
    return std::string(error.what()) == "second" && alive == 0;
  }
}

bool catches_while_destroying() {
  struct Catches {
    ~Catches() {
      caught = throws<int>([] { throw 1; }) && std::uncaught_exceptions() == 1;
    }
    bool& caught;
  };
  bool caught = false;
  const bool outer = throws<Both>([&] {
    const Catches catches{caught};
    throw Both();
  });
  return outer && caught && alive == 0 && std::uncaught_exceptions() == 0;
}

bool keeps_an_exception() {
  std::exception_ptr kept;
  try {
    throw Both();
  } catch (...) {
    kept = std::current_exception();
  }
  const bool kept_alive = alive == 1;
  for (int i = 0; i < 2; ++i) {
    if (!throws<Left>([&] { std::rethrow_exception(kept); })) return false;
  }
  kept = nullptr;
  return kept_alive && alive == 0;
}

bool library_headers_throw() {
  const std::vector<int> empty;
  return throws<std::out_of_range>([&] { return empty.at(static_cast<size_t>(zero)); }) &&
         throws<std::bad_optional_access>([] { return std::optional<int>().value(); }) &&
         throws<std::bad_function_call>([] { std::function<void()>()(); });
}

// These are thrown in the library, which was built without exceptions.
bool compiled_library_throws() {
  const std::string text = zero == 0 ? "no number" : "1";
  return throws<std::exception>([&] { return std::stoll(text); }) &&
         throws<std::exception>([&] { return std::stoll(std::string(40, '9')); }) &&
         throws<std::exception>([&] { return std::string(text).insert(100, "x"); }) &&
         throws<std::exception>([&] { return std::string(~size_t{0} - 64, text.front()); });
}

bool memory_runs_out() {
  constexpr size_t kGibibyte = 1 << 30;
  std::vector<std::unique_ptr<char[]>> taken;
  return throws<std::bad_alloc>([&] {
    for (int i = 0; i < 4; ++i) taken.emplace_back(new char[kGibibyte]);
  });
}

constexpr std::array kChecks = {catches_by_value,
                                catches_the_second_base,
                                passes_by_other_types,
                                destroys_on_the_way,
                                rethrows,
                                throws_while_catching,
                                catches_while_destroying,
                                keeps_an_exception,
                                library_headers_throw,
                                compiled_library_throws,
                                memory_runs_out};

}  // namespace

extern "C" __attribute__((export_name("run"))) int run() {
  for (size_t i = 0; i < kChecks.size(); ++i) {
    if (!kChecks[i]() || std::uncaught_exceptions() != 0) return static_cast<int>(i) + 1;
  }
  return 0;
}
