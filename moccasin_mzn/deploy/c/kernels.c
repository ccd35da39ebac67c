/* See kernels.h. */
#include "kernels.h"

#include <math.h>
#include <string.h>

/* --- Integers that stand for real numbers --- */

/* a * b / 2^31, rounded to the nearest. */
static int32_t high_product(int32_t a, int32_t b)
{
    int64_t product = (int64_t)a * b;
    if (a == INT32_MIN && b == INT32_MIN) {
        return INT32_MAX;
    }
    return (int32_t)((product + (product >= 0 ? (int64_t)1 << 30 : 1 - ((int64_t)1 << 30))) / ((int64_t)1 << 31));
}

/* Floor of x / 2^exponent, also where x < 0, without the shift of a negative number. */
static int32_t shifted_down(int32_t x, int32_t exponent)
{
    return x >= 0 ? x >> exponent : ~(~x >> exponent);
}

/* x / 2^exponent, rounded to the nearest, halves away from zero. */
static int32_t divided(int32_t x, int32_t exponent)
{
    uint32_t mask = ((uint32_t)1 << exponent) - 1U;
    uint32_t rest = (uint32_t)x & mask;
    uint32_t half = (mask >> 1) + (x < 0 ? 1U : 0U);
    return shifted_down(x, exponent) + (rest > half ? 1 : 0);
}

/* The number that has these bits. */
static int32_t wrapped(uint32_t bits)
{
    return bits <= (uint32_t)INT32_MAX ? (int32_t)bits : -(int32_t)(UINT32_MAX - bits) - 1;
}

/* x * 2^exponent; what is too large wraps around. */
static int32_t shifted_up(int32_t x, int32_t exponent)
{
    return wrapped((uint32_t)x << exponent);
}

/* a + b; what is too large wraps around. */
static int32_t added(int32_t a, int32_t b)
{
    return wrapped((uint32_t)a + (uint32_t)b);
}

static int32_t scaled(int32_t x, mc_factor factor)
{
    int32_t up = factor.shift > 0 ? factor.shift : 0, down = factor.shift > 0 ? 0 : -factor.shift;
    return divided(high_product(shifted_up(x, up), factor.multiplier), down);
}

/* Bits of a number, without those that are 0 before it. */
static int32_t bits_of(uint32_t x)
{
    int32_t count = 0, step;
    for (step = 16; step > 0; step /= 2) {
        if (x >> step != 0U) {
            x >>= step;
            count += step;
        }
    }
    return count + (x != 0U ? 1 : 0);
}

/* x * factor as a double has it, of 53 bits, halves to the even one, and this rounded to the nearest integer, halves
   away from zero: what LiteRT's matrix products do. What does not fit is the least integer, as on x86.

   The product has up to 85 bits, high * 2^32 + low; those dropped for a double are the last ones of low. */
static int32_t scaled_as_double(int32_t x, const mc_double *factor)
{
    uint32_t size = x < 0 ? 0U - (uint32_t)x : (uint32_t)x, rest;
    uint64_t low = (uint64_t)factor->low * size, high = (uint64_t)factor->high * size + (low >> 32), found;
    int32_t dropped = size == 0U ? 0 : bits_of(size) - 1, down;
    low &= UINT32_MAX;
    dropped += (high >> dropped) >> 21 != 0U ? 1 : 0;
    found = high << (32 - dropped) | low >> dropped;
    if (dropped > 0) {
        rest = (uint32_t)low & (((uint32_t)1 << (dropped - 1)) * 2U - 1U);
        found += rest + (found & 1U) > (uint32_t)1 << (dropped - 1) ? 1U : 0U;
    }
    down = factor->down - dropped;
    if (down > 54 || size == 0U) {
        return 0;
    }
    found = down < 1 ? UINT64_MAX : (found + ((uint64_t)1 << (down - 1))) >> down;
    return found > INT32_MAX ? INT32_MIN : x < 0 ? -(int32_t)found : (int32_t)found;
}

static int8_t clamped(int32_t x, int32_t least, int32_t most)
{
    return (int8_t)(x < least ? least : x > most ? most : x);
}

/* An element of an output with a zero point. */
static int8_t shifted(int32_t x, int32_t zero, int32_t least, int32_t most)
{
    return clamped(added(x, zero), least, most);
}

/* --- Places --- */

/* The pixel of an input at a row and a column.
   hint: the part where the last one was found */
static const int8_t *pixel(const mc_view *view, int32_t row, int32_t column, int32_t *hint)
{
    const mc_part *part = &view->parts[*hint];
    int32_t tried;
    for (tried = 0; tried < view->count; tried++) {
        if (row >= part->row && row < part->row + part->rows && column >= part->column &&
            column < part->column + part->columns) {
            break;
        }
        *hint = *hint + 1 == view->count ? 0 : *hint + 1;
        part = &view->parts[*hint];
    }
    return (const int8_t *)part->data +
           ((row - part->row) * part->pitch + (column - part->column)) * view->shape.bytes;
}

static uint8_t *pixel_out(const mc_block *out, int32_t row, int32_t column)
{
    return out->data + ((row - out->row) * out->pitch + (column - out->column)) * out->shape.bytes;
}

/* The pixels that a window reads; NULL for padding. */
static void gather(const mc_window *w, const mc_view *in, int32_t row, int32_t column, const int8_t **taps)
{
    int32_t first_row = row / w->out_height * w->in_height, hint = 0, i, j;
    int32_t y = row % w->out_height * w->stride_y - w->before_y, left = column * w->stride_x - w->before_x;
    for (i = 0; i < w->height; i++, y += w->dilation_y) {
        int32_t x = left;
        for (j = 0; j < w->width; j++, x += w->dilation_x) {
            int there = y >= 0 && y < w->in_height && x >= 0 && x < w->in_width;
            *taps++ = there ? pixel(in, first_row + y, x, &hint) : NULL;
        }
    }
}

/* --- Convolutions and matrix products --- */

/* Add the products of pixels and of the weights of two outputs, which read each pixel once. */
static void add_products(const int8_t *x, const int8_t *first, const int8_t *second, int32_t count, int32_t zero,
                         int32_t *sums)
{
    int32_t one = sums[0], other = sums[1], at;
    for (at = 0; at < count; at++) {
        int32_t value = x[at] - zero;
        one += first[at] * value;
        other += second[at] * value;
    }
    sums[0] = one;
    sums[1] = other;
}

/* An odd output at the end, or of a group, is computed twice, in the place of two. */
void mc_convolution(const void *layer, const mc_view *in, const mc_block *out, const int8_t **taps)
{
    const mc_convolution_layer *p = layer;
    int32_t places = p->window.height * p->window.width, size = places * p->depth, row, column, channel, t;
    for (row = out->row; row < out->row + out->rows; row++) {
        for (column = out->column; column < out->column + out->columns; column++) {
            int8_t *made = (int8_t *)pixel_out(out, row, column);
            gather(&p->window, in, row, column, taps);
            for (channel = 0; channel < out->shape.channels; channel++) {
                int32_t sums[2] = {0, 0}, begin = channel / p->group * p->depth;
                int32_t next = channel % p->group == p->group - 1 ? channel : channel + 1;
                const int8_t *first = p->weights + channel * size, *second = p->weights + next * size;
                for (t = 0; t < places; t++, first += p->depth, second += p->depth) {
                    if (taps[t] != NULL) {
                        add_products(taps[t] + begin, first, second, p->depth, p->in_zero, sums);
                    }
                }
                sums[0] = added(sums[0], p->bias == NULL ? 0 : p->bias[channel]);
                sums[1] = added(sums[1], p->bias == NULL ? 0 : p->bias[next]);
                made[channel] = shifted(scaled(sums[0], p->factors[channel]), p->out_zero, p->least, p->most);
                if (next > channel) {
                    channel = next;
                    made[channel] = shifted(scaled(sums[1], p->factors[channel]), p->out_zero, p->least, p->most);
                }
            }
        }
    }
}

void mc_depthwise(const void *layer, const mc_view *in, const mc_block *out, const int8_t **taps)
{
    const mc_convolution_layer *p = layer;
    int32_t places = p->window.height * p->window.width, row, column, channel, t;
    for (row = out->row; row < out->row + out->rows; row++) {
        for (column = out->column; column < out->column + out->columns; column++) {
            int8_t *made = (int8_t *)pixel_out(out, row, column);
            gather(&p->window, in, row, column, taps);
            for (channel = 0; channel < out->shape.channels; channel++) {
                int32_t sum = 0, of = p->group == 1 ? channel : channel / p->group;
                const int8_t *weights = p->weights + channel;
                for (t = 0; t < places; t++, weights += out->shape.channels) {
                    sum += taps[t] == NULL ? 0 : *weights * (taps[t][of] - p->in_zero);
                }
                sum = added(sum, p->bias == NULL ? 0 : p->bias[channel]);
                made[channel] = shifted(scaled(sum, p->factors[channel]), p->out_zero, p->least, p->most);
            }
        }
    }
}

/* The same, four elements at a time: rows of matrices are long. */
static void add_row_products(const int8_t *x, const int8_t *first, const int8_t *second, int32_t count, int32_t zero,
                             int32_t *sums)
{
    int32_t one = sums[0], other = sums[1], at, fours = count - count % 4;
    for (at = 0; at < fours; at += 4) {
        int32_t a = x[at] - zero, b = x[at + 1] - zero, c = x[at + 2] - zero, d = x[at + 3] - zero;
        one += first[at] * a + first[at + 1] * b + first[at + 2] * c + first[at + 3] * d;
        other += second[at] * a + second[at + 1] * b + second[at + 2] * c + second[at + 3] * d;
    }
    sums[0] = one;
    sums[1] = other;
    add_products(x + fours, first + fours, second + fours, count - fours, zero, sums);
}

/* Two units of a row of the input, which is as many elements as a unit has weights: a pixel, or several that follow. */
static void dense_units(const mc_dense_layer *p, const mc_view *in, int32_t first, const int8_t *one,
                        const int8_t *other, int32_t *sums)
{
    int32_t channels = in->shape.channels, j, at, hint = 0;
    for (j = first; j < first + p->depth / channels; j++, one += channels, other += channels) {
        const int8_t *x = pixel(in, j / in->shape.columns, j % in->shape.columns, &hint);
        add_row_products(x, one, other, channels, p->in_zero, sums);
        for (at = 0; at < channels && p->weight_zero != 0; at++) {
            sums[0] -= p->weight_zero * (x[at] - p->in_zero);
            sums[1] -= p->weight_zero * (x[at] - p->in_zero);
        }
    }
}

void mc_dense(const void *layer, const mc_view *in, const mc_block *out, const int8_t **taps)
{
    const mc_dense_layer *p = layer;
    int32_t pixels = p->depth / in->shape.channels, row, column, unit, k;
    (void)taps;
    for (row = out->row; row < out->row + out->rows; row++) {
        for (column = out->column; column < out->column + out->columns; column++) {
            int8_t *made = (int8_t *)pixel_out(out, row, column);
            int32_t first = (row * out->shape.columns + column) * pixels, units = out->shape.channels;
            for (unit = 0; unit < units; unit += 2) {
                int32_t sums[2] = {0, 0}, count = units - unit < 2 ? 1 : 2;
                const int8_t *weights = p->weights + unit * p->depth;
                dense_units(p, in, first, weights, weights + (count - 1) * p->depth, sums);
                for (k = unit; k < unit + count; k++) {
                    int32_t sum = added(sums[k - unit], p->bias == NULL ? 0 : p->bias[k]);
                    int32_t value = scaled_as_double(sum, &p->factors[k * p->step]);
                    made[k] = shifted(value, p->out_zero, p->least, p->most);
                }
            }
        }
    }
}

/* --- Pools and means --- */

/* sum / count, rounded to the nearest, halves away from zero. */
static int32_t mean_of(int32_t sum, int32_t count)
{
    return (sum > 0 ? sum + count / 2 : sum - count / 2) / count;
}

void mc_average_pool(const void *layer, const mc_view *in, const mc_block *out, const int8_t **taps)
{
    const mc_pool_layer *p = layer;
    int32_t places = p->window.height * p->window.width, row, column, channel, t;
    for (row = out->row; row < out->row + out->rows; row++) {
        for (column = out->column; column < out->column + out->columns; column++) {
            int8_t *made = (int8_t *)pixel_out(out, row, column);
            gather(&p->window, in, row, column, taps);
            for (channel = 0; channel < out->shape.channels; channel++) {
                int32_t sum = 0, count = 0;
                for (t = 0; t < places; t++) {
                    if (taps[t] != NULL) {
                        sum += taps[t][channel];
                        count++;
                    }
                }
                made[channel] = clamped(mean_of(sum, count), p->least, p->most);
            }
        }
    }
}

void mc_max_pool(const void *layer, const mc_view *in, const mc_block *out, const int8_t **taps)
{
    const mc_pool_layer *p = layer;
    int32_t places = p->window.height * p->window.width, row, column, channel, t;
    for (row = out->row; row < out->row + out->rows; row++) {
        for (column = out->column; column < out->column + out->columns; column++) {
            int8_t *made = (int8_t *)pixel_out(out, row, column);
            gather(&p->window, in, row, column, taps);
            for (channel = 0; channel < out->shape.channels; channel++) {
                int32_t most = INT8_MIN;
                for (t = 0; t < places; t++) {
                    if (taps[t] != NULL && taps[t][channel] > most) {
                        most = taps[t][channel];
                    }
                }
                made[channel] = clamped(most, p->least, p->most);
            }
        }
    }
}

/* The sum of the elements of a part in rows, columns and channels from low to high. */
static int32_t sum_of(const mc_part *part, const int32_t *low, const int32_t *high, int32_t channels)
{
    int32_t sum = 0, row, column, channel;
    int32_t top = low[0] > part->row ? low[0] : part->row, left = low[1] > part->column ? low[1] : part->column;
    int32_t bottom = high[0] < part->row + part->rows ? high[0] : part->row + part->rows;
    int32_t right = high[1] < part->column + part->columns ? high[1] : part->column + part->columns;
    for (row = top; row < bottom; row++) {
        for (column = left; column < right; column++) {
            const int8_t *x = (const int8_t *)part->data +
                              ((row - part->row) * part->pitch + (column - part->column)) * channels;
            for (channel = low[2]; channel < high[2]; channel++) {
                sum += x[channel];
            }
        }
    }
    return sum;
}

/* The sum for an output element over what is read. */
static int32_t reduced(const mc_mean_layer *p, const mc_view *in, const int32_t *at)
{
    int32_t sum = 0, image, part;
    int32_t first = p->over[0] ? 0 : at[0], end = p->over[0] ? p->images : at[0] + 1;
    for (image = first; image < end; image++) {
        int32_t low[3], high[3];
        low[0] = image * p->height + (p->over[1] ? 0 : at[1]);
        high[0] = p->over[1] ? low[0] + p->height : low[0] + 1;
        low[1] = p->over[2] ? 0 : at[2];
        high[1] = p->over[2] ? p->width : at[2] + 1;
        low[2] = p->over[3] ? 0 : at[3];
        high[2] = p->over[3] ? p->channels : at[3] + 1;
        for (part = 0; part < in->count; part++) {
            sum += sum_of(&in->parts[part], low, high, p->channels);
        }
    }
    return sum;
}

static int8_t finished(const mc_mean_layer *p, int32_t sum)
{
    int32_t mean = p->average ? mean_of(sum, p->count) : scaled(sum - p->in_zero * p->count, p->factor);
    return shifted(mean, p->out_zero, p->least, p->most);
}

/* In steps over parts the sum so far is read from the second input, of int32 elements, which need not be aligned. */
void mc_mean(const void *layer, const mc_view *in, const mc_block *out, const int8_t **taps)
{
    const mc_mean_layer *p = layer;
    int32_t height = p->over[1] ? 1 : p->height, width = p->over[2] ? 1 : p->width;
    int32_t channels = p->over[3] ? 1 : p->channels, count = (p->over[0] ? 1 : p->images) * height * width * channels;
    int32_t index;
    (void)taps;
    for (index = 0; index < count; index++) {
        int32_t at[4], sum, before;
        at[3] = index % channels;
        at[2] = index / channels % width;
        at[1] = index / channels / width % height;
        at[0] = index / channels / width / height;
        sum = reduced(p, in, at);
        if (out->stage >= MC_NEXT) {
            memcpy(&before, in[1].parts[0].data + 4 * index, sizeof before);
            sum += before;
        }
        if (out->stage == MC_FIRST || out->stage == MC_NEXT) {
            memcpy(out->data + 4 * index, &sum, sizeof sum);
        } else {
            ((int8_t *)out->data)[index] = finished(p, sum);
        }
    }
}

/* --- Element by element --- */

/* The pixel of one of two inputs that a pixel of the output reads. */
static const int8_t *operand(const mc_binary_layer *p, const mc_view *in, int32_t of, int32_t row, int32_t column,
                             int32_t *hint)
{
    const int32_t *steps = p->steps[of];
    int32_t at = row / p->out_height * steps[0] * p->height[of] + row % p->out_height * steps[1];
    return pixel(&in[of], at, column * steps[2], &hint[of]);
}

void mc_add(const void *layer, const mc_view *in, const mc_block *out, const int8_t **taps)
{
    const mc_binary_layer *p = layer;
    int32_t hint[2] = {0, 0}, row, column, channel;
    (void)taps;
    for (row = out->row; row < out->row + out->rows; row++) {
        for (column = out->column; column < out->column + out->columns; column++) {
            int8_t *made = (int8_t *)pixel_out(out, row, column);
            const int8_t *a = operand(p, in, 0, row, column, hint), *b = operand(p, in, 1, row, column, hint);
            for (channel = 0; channel < out->shape.channels; channel++, a += p->steps[0][3], b += p->steps[1][3]) {
                int32_t first = scaled((*a - p->zero[0]) * (1 << 20), p->factor[0]);
                int32_t second = scaled((*b - p->zero[1]) * (1 << 20), p->factor[1]);
                int32_t sum = scaled(first + p->sign * second, p->out_factor);
                made[channel] = shifted(sum, p->out_zero, p->least, p->most);
            }
        }
    }
}

void mc_multiply(const void *layer, const mc_view *in, const mc_block *out, const int8_t **taps)
{
    const mc_binary_layer *p = layer;
    int32_t hint[2] = {0, 0}, row, column, channel;
    (void)taps;
    for (row = out->row; row < out->row + out->rows; row++) {
        for (column = out->column; column < out->column + out->columns; column++) {
            int8_t *made = (int8_t *)pixel_out(out, row, column);
            const int8_t *a = operand(p, in, 0, row, column, hint), *b = operand(p, in, 1, row, column, hint);
            for (channel = 0; channel < out->shape.channels; channel++, a += p->steps[0][3], b += p->steps[1][3]) {
                int32_t product = (*a - p->zero[0]) * (*b - p->zero[1]);
                made[channel] = shifted(scaled(product, p->out_factor), p->out_zero, p->least, p->most);
            }
        }
    }
}

void mc_table(const void *layer, const mc_view *in, const mc_block *out, const int8_t **taps)
{
    const mc_table_layer *p = layer;
    int32_t row, column, channel, hint = 0;
    (void)taps;
    for (row = out->row; row < out->row + out->rows; row++) {
        for (column = out->column; column < out->column + out->columns; column++) {
            int8_t *made = (int8_t *)pixel_out(out, row, column);
            const int8_t *x = pixel(in, row, column, &hint);
            for (channel = 0; channel < out->shape.channels; channel++) {
                made[channel] = p->values[x[channel] + 128];
            }
        }
    }
}

void mc_quantize(const void *layer, const mc_view *in, const mc_block *out, const int8_t **taps)
{
    const mc_scale_layer *p = layer;
    int32_t row, column, channel, hint = 0, at;
    (void)taps;
    for (row = out->row; row < out->row + out->rows; row++) {
        for (column = out->column; column < out->column + out->columns; column++) {
            int8_t *made = (int8_t *)pixel_out(out, row, column);
            const int8_t *x = pixel(in, row, column, &hint);
            for (channel = 0; channel < out->shape.channels; channel++) {
                float value;
                memcpy(&value, x + 4 * channel, sizeof value);
                value = roundf(value / p->scale); /* what does not fit, and no number, is the least, as on x86 */
                at = value >= -2147483648.0F && value < 2147483648.0F ? (int32_t)value : INT32_MIN;
                made[channel] = shifted(at, p->zero, INT8_MIN, INT8_MAX);
            }
        }
    }
}

void mc_dequantize(const void *layer, const mc_view *in, const mc_block *out, const int8_t **taps)
{
    const mc_scale_layer *p = layer;
    int32_t row, column, channel, hint = 0;
    (void)taps;
    for (row = out->row; row < out->row + out->rows; row++) {
        for (column = out->column; column < out->column + out->columns; column++) {
            uint8_t *made = pixel_out(out, row, column);
            const int8_t *x = pixel(in, row, column, &hint);
            for (channel = 0; channel < out->shape.channels; channel++) {
                float value = p->scale * (float)(x[channel] - p->zero);
                memcpy(made + 4 * channel, &value, sizeof value);
            }
        }
    }
}

/* --- Softmax: sums of exponentials with 12 bits before the point, and a reciprocal by Newton's method --- */

static int32_t zeros_before(uint32_t x)
{
    int32_t count = 0;
    while (count < 32 && (x & ((uint32_t)1 << (31 - count))) == 0U) {
        count++;
    }
    return count;
}

/* x * 2^exponent with saturation. */
static int32_t saturated(int32_t x, int32_t exponent)
{
    int64_t product = (int64_t)x * ((int64_t)1 << exponent);
    return product > INT32_MAX ? INT32_MAX : product < INT32_MIN ? INT32_MIN : (int32_t)product;
}

/* 1 / (1 + x) for x from 0 to 1, both with 31 bits behind the point. */
static int32_t reciprocal(int32_t x)
{
    const int32_t of_48_over_17 = 1515870810, minus_32_over_17 = -1010580540, one = 1 << 29;
    int64_t sum = (int64_t)x + INT32_MAX;
    int32_t half = (int32_t)((sum + (sum >= 0 ? 1 : -1)) / 2);
    int32_t found = of_48_over_17 + high_product(half, minus_32_over_17), at;
    for (at = 0; at < 3; at++) {
        found += saturated(high_product(found, one - high_product(half, found)), 2);
    }
    return saturated(found, 1);
}

static void softmax_of(const mc_softmax_layer *p, const int8_t *x, int8_t *made, int32_t channels)
{
    int32_t most = INT8_MIN, channel, over, shift, scale;
    int64_t total = 0;
    uint32_t sum;
    for (channel = 0; channel < channels; channel++) {
        most = x[channel] > most ? x[channel] : most;
    }
    for (channel = 0; channel < channels; channel++) {
        if (most - x[channel] <= p->most) {
            total += divided(p->exponentials[most - x[channel]], 12);
        }
    }
    sum = total > INT32_MAX ? (uint32_t)INT32_MAX : (uint32_t)total;
    over = zeros_before(sum);
    shift = 12 - over + 23; /* above 31 each probability is less than half a 256th */
    scale = reciprocal((int32_t)((sum << over) - ((uint32_t)1 << 31)));
    for (channel = 0; channel < channels; channel++) {
        int32_t value = 0;
        if (most - x[channel] <= p->most && shift <= 31) {
            value = divided(high_product(scale, p->exponentials[most - x[channel]]), shift);
        }
        made[channel] = clamped(value - 128, INT8_MIN, INT8_MAX);
    }
}

void mc_softmax(const void *layer, const mc_view *in, const mc_block *out, const int8_t **taps)
{
    int32_t row, column, hint = 0;
    (void)taps;
    for (row = out->row; row < out->row + out->rows; row++) {
        for (column = out->column; column < out->column + out->columns; column++) {
            const int8_t *x = pixel(in, row, column, &hint);
            softmax_of(layer, x, (int8_t *)pixel_out(out, row, column), out->shape.channels);
        }
    }
}

/* --- Elements that only move --- */

static void copied_channels(const mc_view *in, int32_t count, int32_t row, int32_t column, uint8_t *made)
{
    int32_t at, hint;
    for (at = 0; at < count; at++) {
        hint = 0;
        memcpy(made, pixel(&in[at], row, column, &hint), (size_t)in[at].shape.bytes);
        made += in[at].shape.bytes;
    }
}

void mc_concatenation(const void *layer, const mc_view *in, const mc_block *out, const int8_t **taps)
{
    const mc_concatenation_layer *p = layer;
    int32_t row, column, of, hint;
    (void)taps;
    for (row = out->row; row < out->row + out->rows; row++) {
        for (column = out->column; column < out->column + out->columns; column++) {
            int32_t image = row / p->out_height, y = row % p->out_height, x = column;
            uint8_t *made = pixel_out(out, row, column);
            if (p->axis == 3) {
                copied_channels(in, p->inputs, row, column, made);
                continue;
            }
            for (of = 0; of < p->inputs - 1; of++) {
                int32_t images = in[of].shape.rows / p->height[of];
                if ((p->axis == 0 && image < images) || (p->axis == 1 && y < p->height[of]) ||
                    (p->axis == 2 && x < in[of].shape.columns)) {
                    break;
                }
                image -= p->axis == 0 ? images : 0;
                y -= p->axis == 1 ? p->height[of] : 0;
                x -= p->axis == 2 ? in[of].shape.columns : 0;
            }
            hint = 0;
            memcpy(made, pixel(&in[of], image * p->height[of] + y, x, &hint), (size_t)out->shape.bytes);
        }
    }
}

static int within(int32_t at, int32_t extent)
{
    return at >= 0 && at < extent;
}

void mc_pad(const void *layer, const mc_view *in, const mc_block *out, const int8_t **taps)
{
    const mc_pad_layer *p = layer;
    int32_t row, column, channel, hint = 0;
    (void)taps;
    for (row = out->row; row < out->row + out->rows; row++) {
        for (column = out->column; column < out->column + out->columns; column++) {
            uint8_t *made = pixel_out(out, row, column);
            int32_t image = row / p->out_height - p->before[0], y = row % p->out_height - p->before[1];
            int32_t x = column - p->before[2];
            for (channel = 0; channel < out->shape.channels; channel++) {
                memcpy(made + channel * p->element, p->value, (size_t)p->element);
            }
            if (within(image, p->extents[0]) && within(y, p->extents[1]) && within(x, p->extents[2])) {
                memcpy(made + p->before[3] * p->element, pixel(in, image * p->in_height + y, x, &hint),
                       (size_t)in->shape.bytes);
            }
        }
    }
}

/* The same bytes one after the other in another shape; the output is whole. */
void mc_reshape(const void *layer, const mc_view *in, const mc_block *out, const int8_t **taps)
{
    int32_t row, part;
    (void)layer;
    (void)taps;
    for (part = 0; part < in->count; part++) {
        const mc_part *of = &in->parts[part];
        for (row = 0; row < of->rows; row++) {
            memcpy(out->data + ((of->row + row) * in->shape.columns + of->column) * in->shape.bytes,
                   of->data + row * of->pitch * in->shape.bytes, (size_t)(of->columns * in->shape.bytes));
        }
    }
}

void mc_transpose(const void *layer, const mc_view *in, const mc_block *out, const int8_t **taps)
{
    const mc_transpose_layer *p = layer;
    int32_t row, column, channel, hint = 0, axis;
    (void)taps;
    for (row = out->row; row < out->row + out->rows; row++) {
        for (column = out->column; column < out->column + out->columns; column++) {
            uint8_t *made = pixel_out(out, row, column);
            for (channel = 0; channel < out->shape.channels; channel++) {
                int32_t at[4], of[4];
                at[0] = row / p->out_height;
                at[1] = row % p->out_height;
                at[2] = column;
                at[3] = channel;
                for (axis = 0; axis < 4; axis++) {
                    of[p->from[axis]] = at[axis];
                }
                memcpy(made + channel * p->element,
                       pixel(in, of[0] * p->in_height + of[1], of[2], &hint) + of[3] * p->element, (size_t)p->element);
            }
        }
    }
}

void mc_nearest(const void *layer, const mc_view *in, const mc_block *out, const int8_t **taps)
{
    const mc_nearest_layer *p = layer;
    int32_t row, column, hint = 0;
    (void)taps;
    for (row = out->row; row < out->row + out->rows; row++) {
        int32_t of = row / p->out_height * p->in_height + p->rows[row % p->out_height];
        for (column = out->column; column < out->column + out->columns; column++) {
            memcpy(pixel_out(out, row, column), pixel(in, of, p->columns[column], &hint), (size_t)out->shape.bytes);
        }
    }
}

void mc_bilinear(const void *layer, const mc_view *in, const mc_block *out, const int8_t **taps)
{
    const mc_bilinear_layer *p = layer;
    int32_t row, column, channel, hint = 0;
    (void)taps;
    for (row = out->row; row < out->row + out->rows; row++) {
        const mc_between *y = &p->rows[row % p->out_height];
        int32_t first = row / p->out_height * p->in_height;
        for (column = out->column; column < out->column + out->columns; column++) {
            const mc_between *x = &p->columns[column];
            const int8_t *a = pixel(in, first + y->low, x->low, &hint), *b = pixel(in, first + y->low, x->high, &hint);
            const int8_t *c = pixel(in, first + y->high, x->low, &hint), *d = pixel(in, first + y->high, x->high, &hint);
            int32_t above = 1024 - y->part, before = 1024 - x->part;
            int8_t *made = (int8_t *)pixel_out(out, row, column);
            for (channel = 0; channel < out->shape.channels; channel++) {
                int64_t sum = (int64_t)a[channel] * above * before + (int64_t)b[channel] * above * x->part +
                              (int64_t)c[channel] * y->part * before + (int64_t)d[channel] * y->part * x->part;
                made[channel] = (int8_t)((sum + (sum > 0 ? 1 << 19 : -(1 << 19))) / (1 << 20));
            }
        }
    }
}

/* --- Programs --- */

/* Where the parts are that a step reads, in the order of the layer's inputs. */
static void find_parts(const mc_program *program, const mc_step *step, const uint8_t *const *from, mc_view *in,
                       mc_part *parts)
{
    const mc_layer *layer = &program->layers[step->layer];
    const uint16_t *reads = program->reads + step->reads;
    int32_t input, at;
    for (input = 0; input < layer->inputs; input++) {
        in[input].shape = program->shapes[layer->shapes[input]];
        in[input].count = *reads++;
        in[input].parts = parts;
        for (at = 0; at < in[input].count; at++) {
            const mc_place *place = &program->places[*reads++];
            parts->data = from[place->base] + place->offset;
            parts->row = place->row;
            parts->rows = place->rows;
            parts->column = place->column;
            parts->columns = place->columns;
            parts->pitch = place->pitch;
            parts++;
        }
    }
}

void mc_run(const mc_program *program, const uint8_t *const *from, uint8_t *const *to, mc_part *parts,
            const int8_t **taps)
{
    uint32_t at;
    for (at = 0; at < program->count; at++) {
        const mc_step *step = &program->steps[at];
        const mc_layer *layer = &program->layers[step->layer];
        const mc_place *place = &program->places[step->place];
        mc_view in[MC_INPUTS];
        mc_block out;
        find_parts(program, step, from, in, parts);
        out.data = to[place->base] + place->offset;
        out.row = place->row;
        out.rows = place->rows;
        out.column = place->column;
        out.columns = place->columns;
        out.pitch = place->pitch;
        out.shape = layer->output;
        out.stage = place->stage;
        layer->kernel(layer->parameters, in, &out, taps);
    }
}
