// Calls a kernel by name, one thread after another, in an order that the caller selects.

// 0: in order of number, 1: reversed, else shuffled with this seed.
static std::unique_ptr<u64[]> ordered(u64 count, u64 order) {
    std::unique_ptr<u64[]> numbers(new u64[count]);
    for (u64 i = 0; i < count; i++) {
        numbers[i] = order == 1 ? count - 1 - i : i;
    }
    for (u64 i = order > 1 ? count : 0; i > 1; i--) {
        order = order * 6364136223846793005ull + 1442695040888963407ull;
        std::swap(numbers[i - 1], numbers[(order >> 33) % i]);
    }
    return numbers;
}

// Returns 0 on success, 1 for an unknown kernel, 2 for wrong arguments.
template <class... A, std::size_t... N>
static int call(void (*kernel)(A...), Place grid, u32 block, u64 order, void **args, const u32 *sizes, u32 count,
                std::index_sequence<N...>) {
    const u32 expected[] = {(u32)sizeof(A)...};
    if (count != sizeof...(A) || std::memcmp(sizes, expected, sizeof expected) != 0) {
        return 2;
    }
    gridDim = grid;
    blockDim = {block, 1};
    u64 threads = (u64)grid.x * grid.y * block;
    std::unique_ptr<u64[]> numbers = ordered(threads, order);
    for (u64 i = 0; i < threads; i++) {
        u64 number = numbers[i];
        threadIdx = {(u32)(number % block), 0};
        blockIdx = {(u32)(number / block % grid.x), (u32)(number / block / grid.x)};
        kernel(*(const A *)args[N]...);
    }
    return 0;
}

template <class... A>
static int call(void (*kernel)(A...), Place grid, u32 block, u64 order, void **args, const u32 *sizes, u32 count) {
    return call(kernel, grid, block, order, args, sizes, count, std::index_sequence_for<A...>());
}

#define CASE(kernel)                                                                                                                      \
    if (std::strcmp(name, #kernel) == 0) {                                                                                                 \
        return call(kernel, Place{grid_x, grid_y}, block, order, args, sizes, count);                                                      \
    }

extern "C" int damper_emulate(const char *name, u32 grid_x, u32 grid_y, u32 block, u64 order, void **args, const u32 *sizes, u32 count) {
    CASE(norm_lanes)
    CASE(norm_totals)
    CASE(norm_sums)
    CASE(scale_first)
    CASE(scale_next)
    CASE(add_rows)
    CASE(fingerprint)
    CASE(release_chunks)
    CASE(filter_iir)
    CASE(filter_kalman)
    CASE(keep_move)
    CASE(point_ahead)
    CASE(update_sgd)
    CASE(update_adam)
    CASE(update_scaled)
    CASE(average_params)
    return 1;
}
