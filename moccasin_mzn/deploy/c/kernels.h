/* Kernels of int8 networks whose tensors may be there in parts, and what runs a plan of them. C99.

   A tensor is (images * height) rows of columns of channels. A part of it is a block of rows and columns that lies
   anywhere in memory:

       column     0       4       8
       row 0      [ part 0       ]          each row of a part is columns * channels elements, and the next one
       row 2      [ part 1 ][ 2  ]          begins pitch pixels later

   Kernels read parts where they are: nothing is copied, and padding is what no part has. Results are those of the
   reference kernels of TensorFlow Lite, bit for bit. Nothing is allocated, there is no recursion, and what is needed on
   the stack does not depend on data. */
#ifndef MOCCASIN_KERNELS_H
#define MOCCASIN_KERNELS_H

#include <stdint.h>

/* A part of a tensor that is read. */
typedef struct {
    const uint8_t *data; /* its first element */
    uint16_t row, rows;
    uint16_t column, columns;
    uint16_t pitch; /* pixels from a row to the next */
} mc_part;

/* The shape of a tensor. */
typedef struct {
    int32_t rows, columns, channels;
    int32_t bytes; /* of a pixel */
} mc_shape;

/* An input of a layer: those of its parts that a step reads. */
typedef struct {
    const mc_part *parts;
    int32_t count;
    mc_shape shape;
} mc_view;

/* Steps of a sum over parts, whose results so far are int32 elements. */
enum { MC_WHOLE = 0, MC_FIRST = 1, MC_NEXT = 2, MC_LAST = 3 };

/* The part of its output that a step computes. */
typedef struct {
    uint8_t *data;
    int32_t row, rows;
    int32_t column, columns;
    int32_t pitch;
    mc_shape shape; /* of the whole output */
    int32_t stage;
} mc_block;

/* A kernel computes a part of a layer's output.
   layer:   its parameters, a structure from below
   in:      its inputs
   taps:    room for a pointer for each place of its window */
typedef void (*mc_kernel)(const void *layer, const mc_view *in, const mc_block *out, const int8_t **taps);

/* The largest number of inputs of a layer. */
#define MC_INPUTS 8

/* --- Programs: what a plan computes, step by step --- */

typedef struct {
    mc_kernel kernel;
    const void *parameters;
    mc_shape output;
    uint8_t inputs;
    uint16_t shapes[MC_INPUTS]; /* positions in the table of shapes */
} mc_layer;

/* Where a part lies. */
typedef struct {
    uint32_t offset; /* bytes from its base */
    uint16_t row, rows, column, columns, pitch;
    uint8_t base; /* 0: the arena, then outputs, inputs and constants */
    uint8_t stage;
} mc_place;

typedef struct {
    uint32_t reads; /* where its reads begin: for each input a count, and so many places */
    uint16_t layer;
    uint16_t place;
} mc_step;

typedef struct {
    const mc_layer *layers;
    const mc_shape *shapes;
    const mc_place *places;
    const uint16_t *reads;
    const mc_step *steps;
    uint32_t count;
} mc_program;

/* Run all steps.
   from, to:  the bases that are read, and those that are written
   parts:     room for the parts that a step reads */
void mc_run(const mc_program *program, const uint8_t *const *from, uint8_t *const *to, mc_part *parts,
            const int8_t **taps);

/* --- Layers --- */

/* A real factor: multiplier * 2^(shift - 31). */
typedef struct {
    int32_t multiplier, shift;
} mc_factor;

/* A factor as a double has it: (high * 2^32 + low) / 2^down, with 53 bits, the first of which is 1. */
typedef struct {
    uint32_t high, low;
    int32_t down;
} mc_double;

/* A window that slides over rows and columns. */
typedef struct {
    int32_t in_height, in_width, out_height;
    int32_t height, width;
    int32_t stride_y, stride_x, dilation_y, dilation_x;
    int32_t before_y, before_x; /* places of padding */
} mc_window;

typedef struct {
    mc_window window;
    const int8_t *weights;
    const int32_t *bias; /* or NULL */
    const mc_factor *factors; /* by channel of the output */
    int32_t depth; /* channels of a filter */
    int32_t group; /* channels of the output that read the same channels of the input */
    int32_t in_zero, out_zero, least, most;
} mc_convolution_layer;

typedef struct {
    const int8_t *weights;
    const int32_t *bias;
    const mc_double *factors;
    int32_t step; /* 1: a factor for each unit; 0: one for all */
    int32_t depth;
    int32_t in_zero, weight_zero, out_zero, least, most;
} mc_dense_layer;

typedef struct {
    mc_window window;
    int32_t least, most;
} mc_pool_layer;

/* A mean over axes: images, rows, columns, channels. */
typedef struct {
    int32_t images, height, width, channels;
    int32_t over[4]; /* 1: over this axis */
    int32_t average; /* 1: the sum divided by the count, rounded, as pooling does; 0: by the factor */
    mc_factor factor;
    int32_t count;
    int32_t in_zero, out_zero, least, most;
} mc_mean_layer;

/* Two inputs, which may have one place where the output has more. */
typedef struct {
    int32_t out_height;
    int32_t height[2];
    int32_t steps[2][4]; /* 0: one place for all, along images, rows, columns, channels */
    int32_t zero[2];
    mc_factor factor[2];
    mc_factor out_factor;
    int32_t sign; /* of the second input */
    int32_t out_zero, least, most;
} mc_binary_layer;

typedef struct {
    int32_t axis; /* 0: images, 1: rows, 2: columns, 3: channels */
    int32_t inputs;
    int32_t out_height;
    int32_t height[MC_INPUTS];
} mc_concatenation_layer;

typedef struct {
    int32_t in_height, out_height;
    int32_t extents[4]; /* of the input */
    int32_t before[4];
    int32_t element; /* bytes of an element */
    uint8_t value[4]; /* an element of padding */
} mc_pad_layer;

typedef struct {
    int32_t out_height, in_height;
    int32_t from[4]; /* the axis of the input that an axis of the output is; out extents follow from shapes */
    int32_t element;
} mc_transpose_layer;

typedef struct {
    int32_t in_height, out_height;
    const uint16_t *rows, *columns; /* by place of the output the one that is read */
} mc_nearest_layer;

/* By place of the output the two that are read, and how far between them it lies, in 1024ths. */
typedef struct {
    uint16_t low, high;
    int16_t part;
} mc_between;

typedef struct {
    int32_t in_height, out_height;
    const mc_between *rows, *columns;
} mc_bilinear_layer;

typedef struct {
    const int8_t *values; /* by input + 128 */
} mc_table_layer;

typedef struct {
    const int32_t *exponentials; /* by the distance from the largest input */
    int32_t most; /* larger distances count for nothing */
} mc_softmax_layer;

typedef struct {
    float scale;
    int32_t zero;
} mc_scale_layer;

void mc_convolution(const void *layer, const mc_view *in, const mc_block *out, const int8_t **taps);
void mc_depthwise(const void *layer, const mc_view *in, const mc_block *out, const int8_t **taps);
void mc_dense(const void *layer, const mc_view *in, const mc_block *out, const int8_t **taps);
void mc_average_pool(const void *layer, const mc_view *in, const mc_block *out, const int8_t **taps);
void mc_max_pool(const void *layer, const mc_view *in, const mc_block *out, const int8_t **taps);
void mc_mean(const void *layer, const mc_view *in, const mc_block *out, const int8_t **taps);
void mc_add(const void *layer, const mc_view *in, const mc_block *out, const int8_t **taps);
void mc_multiply(const void *layer, const mc_view *in, const mc_block *out, const int8_t **taps);
void mc_concatenation(const void *layer, const mc_view *in, const mc_block *out, const int8_t **taps);
void mc_pad(const void *layer, const mc_view *in, const mc_block *out, const int8_t **taps);
void mc_reshape(const void *layer, const mc_view *in, const mc_block *out, const int8_t **taps);
void mc_transpose(const void *layer, const mc_view *in, const mc_block *out, const int8_t **taps);
void mc_nearest(const void *layer, const mc_view *in, const mc_block *out, const int8_t **taps);
void mc_bilinear(const void *layer, const mc_view *in, const mc_block *out, const int8_t **taps);
void mc_table(const void *layer, const mc_view *in, const mc_block *out, const int8_t **taps);
void mc_softmax(const void *layer, const mc_view *in, const mc_block *out, const int8_t **taps);
void mc_quantize(const void *layer, const mc_view *in, const mc_block *out, const int8_t **taps);
void mc_dequantize(const void *layer, const mc_view *in, const mc_block *out, const int8_t **taps);

#endif /* MOCCASIN_KERNELS_H */
