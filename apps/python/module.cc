// tessera._tessera: the library for Python, with requests and answers as JSON texts. The package
// around it (apps/python/tessera) makes dicts of them.
#include <pybind11/functional.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <tessera/tessera.h>

#include <exception>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace py = pybind11;

namespace {

using tessera::Json;

Json parsed(const std::string& text) { return Json::parse(text); }

std::string text_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// What Python code throws in a callback must not pass through the threads of the library: it is
// kept here, the work is told to end, and it goes on from the call that Python made.
class Callback {
 public:
  // Runs `code` with the interpreter's lock; false: the work must end.
  bool run(const std::function<bool()>& code) {
    const py::gil_scoped_acquire lock;
    try {
      if (PyErr_CheckSignals() != 0) throw py::error_already_set();  // ^C
      return code();
    } catch (...) {
      thrown_ = std::current_exception();
      return false;
    }
  }

  void rethrow() const {
    if (thrown_) std::rethrow_exception(thrown_);
  }

 private:
  std::exception_ptr thrown_;
};

template <typename Work>
auto without_lock(const Work& work) {
  const py::gil_scoped_release release;
  return work();
}

std::string ask(const std::string& method, const std::string& request) {
  return without_lock([&] { return text_of(tessera::ask(method, parsed(request))); });
}

std::string search(const std::string& request) {
  Callback callback;
  const std::string answer = without_lock([&] {
    return text_of(tessera::search(
        parsed(request), [&](int64_t, int64_t) { return callback.run([] { return true; }); }));
  });
  callback.rethrow();
  return answer;
}

std::string picture(const std::string& method, const std::string& request) {
  return without_lock([&] {
    return method == "plan" ? tessera::plan_picture(parsed(request))
                            : tessera::simulation_picture(parsed(request));
  });
}

// `on_step` is None or takes a step as JSON; it ends the training by returning False.
std::string train(tessera::Training training, const py::object& on_step) {
  Callback callback;
  const auto after_step = [&](const tessera::TrainedStep& now) {
    return callback.run([&] {
      if (on_step.is_none()) return true;
      const Json step = {{"step", now.step}, {"steps", now.steps},
                         {"loss", now.loss}, {"grad_norm", now.grad_norm},
                         {"lr", now.lr},     {"tokens_per_s", now.tokens_per_s}};
      const py::object wish = on_step(text_of(step));
      return wish.is_none() || wish.cast<bool>();
    });
  };
  const std::string summary =
      without_lock([&] { return text_of(tessera::train(training, after_step)); });
  callback.rethrow();
  return summary;
}

void raise_refusals(const py::object& type) {
  static PyObject* refusal = nullptr;
  refusal = type.inc_ref().ptr();
  py::register_exception_translator([](std::exception_ptr thrown) {
    try {
      if (thrown) std::rethrow_exception(std::move(thrown));
    } catch (const tessera::Refusal& error) {
      const py::object value =
          py::reinterpret_borrow<py::object>(refusal)(error.what(), error.exit_code());
      PyErr_SetObject(refusal, value.ptr());
    }
  });
}

}  // namespace

PYBIND11_MODULE(_tessera, module) {
  module.def("ask", ask);
  module.def("search", search);
  module.def("picture", picture);
  module.def("train", [](std::string run_file, std::string run_text, std::vector<std::string> set,
                         std::string mesh, bool force, const py::object& on_step) {
    return train({std::move(run_file), std::move(run_text), std::move(set), std::move(mesh), force},
                 on_step);
  });
  module.def("raise_refusals", raise_refusals);
}
