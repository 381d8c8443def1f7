// A story in C++: handles that free themselves, text as it comes, and how alike two sentences are.
//
//     c++ -std=c++11 story.cpp $(pkg-config --cflags --libs dopplergl) -o story
//     ./story MODEL "Once upon a time"
#include <dopplergl.h>

#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>

namespace {

// Handles are destroyed in the reverse order of their declaration: session, model, device.
template <typename T, void (*destroy)(T **)> struct Destroy {
    void operator()(T *handle) const { destroy(&handle); }
};
using Device = std::unique_ptr<dgl_device, Destroy<dgl_device, dgl_device_destroy>>;
using Model = std::unique_ptr<dgl_model, Destroy<dgl_model, dgl_model_destroy>>;
using Session = std::unique_ptr<dgl_session, Destroy<dgl_session, dgl_session_destroy>>;

void check(dgl_status status)
{
    if (status != DGL_OK)
        throw std::runtime_error(dgl_status_str(status));
}

// Exceptions must not leave a callback: the library between is C.
void print_log(void *, dgl_log_level level, const char *text)
{
    std::cerr << (level == DGL_LOG_ERROR ? "error: " : "note: ") << text << '\n';
}

bool print_text(void *, const char *text, size_t len)
{
    return static_cast<bool>(std::cout.write(text, static_cast<std::streamsize>(len)).flush());
}

// Normalised, so that a scalar product is the cosine.
double likeness(dgl_session *session, size_t width, const char *a, const char *b)
{
    dgl_embed_params params = {};
    float *first = nullptr, *second = nullptr;
    size_t rows = 0;
    params.normalize = true;
    params.prompt = a;
    check(dgl_embed(session, &params, &first, &rows));
    std::unique_ptr<float, void (*)(void *)> free_first(first, dgl_free);
    params.prompt = b;
    check(dgl_embed(session, &params, &second, &rows));
    std::unique_ptr<float, void (*)(void *)> free_second(second, dgl_free);
    double sum = 0;
    for (size_t i = 0; i < width; i++)
        sum += static_cast<double>(first[i]) * second[i];
    return sum;
}

void run(const char *path, const char *prompt)
{
    dgl_log log = {};
    log.write = print_log;
    log.level = DGL_LOG_WARN;

    dgl_device_params device_params = {};
    device_params.select = "any";
    dgl_device *raw_device = nullptr;
    check(dgl_device_create(&log, &device_params, &raw_device));
    Device device(raw_device);

    dgl_model_params model_params = {};
    model_params.path = path;
    model_params.context = 512;
    dgl_model *raw_model = nullptr;
    check(dgl_model_load(device.get(), &model_params, &raw_model));
    Model model(raw_model);

    dgl_session *raw_session = nullptr;
    check(dgl_session_create(model.get(), nullptr, &raw_session));
    Session session(raw_session);

    dgl_generate_params params = {};
    params.prompt = prompt;
    params.max_tokens = 32;
    params.sampling.temperature = 0.8f;
    params.sampling.top_k = 40;
    params.sampling.seed = 7;
    params.text_cb = print_text;
    dgl_generate_result result;
    std::cout << prompt;
    const dgl_status status = dgl_generate(session.get(), &params, &result);
    const size_t num_tokens = result.num_tokens;
    const char *finish = dgl_finish_str(result.finish);
    dgl_generate_result_finish(&result);
    check(status);
    std::cout << "\n[" << num_tokens << " tokens, " << finish << "]\n";

    const size_t width = static_cast<size_t>(dgl_model_get_info(model.get())->hidden);
    std::cout << "likeness: "
              << likeness(session.get(), width, "The dog ran home.", "The puppy went home.") << ' '
              << likeness(session.get(), width, "The dog ran home.", "It was raining.") << '\n';
}

} // namespace

int main(int argc, char **argv)
{
    if (argc != 3) {
        std::cerr << "usage: " << argv[0] << " MODEL PROMPT\n";
        return 2;
    }
    try {
        run(argv[1], argv[2]);
    } catch (const std::exception &error) {
        std::cerr << error.what() << '\n';
        return 1;
    }
    return 0;
}
