// Writes crates/schema/tests/data/torchscript.pt with libtorch itself: a module whose
// attributes are objects of a custom class that is registered and pickled as the Neuron
// extension registers its own.
//
//     eval "$(cargo xtask libtorch --env)"
//     g++ -std=c++20 tools/make_torchscript.cpp -I$LIBTORCH/include \
//         -I$LIBTORCH/include/torch/csrc/api/include -L$LIBTORCH/lib -ltorch_cpu -lc10 -o make
//     ./make crates/schema/tests/data/torchscript.pt

#include <torch/custom_class.h>
#include <torch/script.h>

struct Model : torch::CustomClassHolder {
  std::string neff, metaneff;
  int64_t ranks;
  Model(std::string neff, std::string metaneff, int64_t ranks)
      : neff(std::move(neff)), metaneff(std::move(metaneff)), ranks(ranks) {}
};

using State = std::tuple<std::string, std::string, int64_t>;

template <typename Library>
void register_class(Library &library, const char *name) {
  library.template class_<Model>(name)
      .def(torch::init<std::string, std::string, int64_t>())
      .def_pickle(
          [](const c10::intrusive_ptr<Model> &model) {
            return State(model->neff, model->metaneff, model->ranks);
          },
          [](State state) {
            return std::apply([](auto... field) { return c10::make_intrusive<Model>(field...); }, state);
          });
}

TORCH_LIBRARY(neuron, library) { register_class(library, "Model"); }

// A header that announces the bytes behind it, which are not UTF-8.
static std::string neff(char tag) {
  std::string bytes(1024 + 9, '\0');
  bytes[0] = 2;
  bytes[9] = 4;
  bytes[16] = 9;
  bytes[24] = 2;
  bytes[1024] = '\xff';
  bytes[1025] = tag;
  return bytes;
}

// The reference page's worked example, section 9.
static std::string metaneff() {
  return std::string("\x0a\x12\x0a\x06input0\x12\x04\x01\x01\x01\x20\x18\x01\x38\x01"
                     "\x12\x13\x0a\x07output0\x12\x04\x01\x01\x01\x20\x18\x01\x38\x00"
                     "\x1a\x02\x30\x01",
                     45);
}

int main(int, char **arguments) {
  auto unit = std::make_shared<torch::jit::CompilationUnit>();
  torch::jit::Module module("__torch__.Trace", unit), child("__torch__.Inner", unit);
  auto type = c10::getCustomClassType<c10::intrusive_ptr<Model>>();
  auto make = [](char tag, int64_t ranks) { return c10::make_intrusive<Model>(neff(tag), metaneff(), ranks); };
  module.register_attribute("model", type, torch::jit::IValue(make('a', 2)));
  child.register_attribute("inner", type, torch::jit::IValue(make('b', -7)));
  child.register_parameter("weight", torch::arange(6, torch::kFloat32).reshape({2, 3}), false);
  child.register_parameter("transposed", torch::arange(6, torch::kFloat32).reshape({2, 3}).t(), false);
  child.register_buffer("tail", torch::arange(4, torch::kFloat32).to(torch::kBFloat16).slice(0, 1));
  module.register_module("child", child);
  module.define("def forward(self, x):\n    return x + 1\n");
  module.save(arguments[1]);
}
