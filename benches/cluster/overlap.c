/* Times three ways to total a sum over ranks as `train` does: whole, in segments one after the other, and in overlapped
 * segments. There the rank prepares the next segment and reads the previous, while one is on its way.
 *
 *     mpicc -O2 benches/cluster/overlap.c -o target/overlap && mpirun -np 2 target/overlap [WORDS]
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE = 1 << 16, REPEATS = 15 };

static int rank, size;
static long block;
static int64_t *sum;
static uint32_t *sent[2], *total[2];

static void fill(long at, long width, uint32_t *to) {
    for (int r = 0; r < size; r++)
        for (long i = 0; i < width; i++) to[r * width + i] = (uint32_t)sum[r * block + at + i];
}

static void take(long at, long width, const uint32_t *from) {
    int64_t *own = sum + rank * block + at;
    for (long i = 0; i < width; i++) own[i] = (int32_t)from[i];
}

static void whole(void) {
    fill(0, block, sent[0]);
    MPI_Reduce_scatter_block(sent[0], total[0], block, MPI_UINT32_T, MPI_SUM, MPI_COMM_WORLD);
    take(0, block, total[0]);
}

static void pieces(void) {
    for (long at = 0; at < block; at += PIECE) {
        fill(at, PIECE, sent[0]);
        MPI_Reduce_scatter_block(sent[0], total[0], PIECE, MPI_UINT32_T, MPI_SUM, MPI_COMM_WORLD);
        take(at, PIECE, total[0]);
    }
}

static void overlapped(void) {
    MPI_Request request;
    fill(0, PIECE, sent[0]);
    int now = 0;
    for (long at = 0; at < block; at += PIECE, now ^= 1) {
        MPI_Ireduce_scatter_block(sent[now], total[now], PIECE, MPI_UINT32_T, MPI_SUM, MPI_COMM_WORLD, &request);
        if (at + PIECE < block) fill(at + PIECE, PIECE, sent[!now]);
        if (at > 0) take(at - PIECE, PIECE, total[!now]);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    take(block - PIECE, PIECE, total[!now]);
}

int main(int count, char **arguments) {
    MPI_Init(&count, &arguments);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    long words = count > 1 ? atol(arguments[1]) : 10000000;
    block = (words / size + PIECE - 1) / PIECE * PIECE;
    sum = malloc(block * size * sizeof *sum);
    for (int i = 0; i < 2; i++) sent[i] = malloc(block * size * 4), total[i] = malloc(block * 4);
    memset(sum, 1, block * size * sizeof *sum);
    const char *names[] = {"whole", "pieces", "pieces, overlapped"};
    void (*ways[])(void) = {whole, pieces, overlapped};
    double best[] = {1e9, 1e9, 1e9};
    for (int i = 0; i < REPEATS; i++)
        for (int way = 0; way < 3; way++) {
            MPI_Barrier(MPI_COMM_WORLD);
            double begun = MPI_Wtime();
            ways[way]();
            MPI_Barrier(MPI_COMM_WORLD);
            double seconds = MPI_Wtime() - begun;
            if (seconds < best[way]) best[way] = seconds;
        }
    for (int way = 0; rank == 0 && way < 3; way++)
        printf("%d ranks, %ld words, %s: %.1f ms\n", size, block * size, names[way], best[way] * 1e3);
    MPI_Finalize();
    return 0;
}
