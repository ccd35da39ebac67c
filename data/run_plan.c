/* Carries out a plan in one static arena: cc -std=c99 -I FOLDER_OF_PLAN_H run_plan.c && ./a.out
   Every node writes a pattern of its own, and checks that what it reads is what was written: in place of compute()
   call your kernels. With several memories their arenas lie behind each other here. */
#include <stdio.h>
#include <string.h>
#include "plan.h"

static unsigned char room[PLAN_ARENA_SIZE + PLAN_ALIGNMENT];
static unsigned char *arena[PLAN_MEMORIES];

static unsigned char *address(uint32_t step) { return arena[plan_memory[step]] + plan_offset[step]; }

static unsigned char pattern(uint32_t node, size_t i) { return (unsigned char)(node * 37u + i * 11u + (i >> 8) + 1u); }

static int is_intact(uint32_t step) {
  size_t i;
  for (i = 0; i < plan_size[step]; i++)
    if (address(step)[i] != pattern(plan_node[step], i)) return 0;
  return 1;
}

/* A kernel: `inputs` are the steps that wrote what it reads. Here it only writes its pattern. */
static void compute(uint32_t step, const uint32_t *inputs, uint32_t count) {
  size_t i;
  (void)inputs, (void)count;
  for (i = 0; i < plan_size[step]; i++) address(step)[i] = pattern(plan_node[step], i);
}

int main(void) {
  unsigned char *base = room + (PLAN_ALIGNMENT - (uintptr_t)room % PLAN_ALIGNMENT) % PLAN_ALIGNMENT;
  uint32_t step, r, m;
  for (m = 0; m < PLAN_MEMORIES; m++) {
    arena[m] = base;
    base += (plan_arena_size[m] + PLAN_ALIGNMENT - 1) / PLAN_ALIGNMENT * PLAN_ALIGNMENT;
  }
  for (step = 0; step < PLAN_STEPS; step++) {
    const uint32_t *inputs = plan_read + plan_read_begin[step];
    uint32_t count = plan_read_begin[step + 1] - plan_read_begin[step];
    if (plan_source[step] < 0)
      compute(step, inputs, count);
    else
      memcpy(address(step), address(inputs[0]), plan_size[step]);
    if ((uintptr_t)address(step) % PLAN_ALIGNMENT != 0 || plan_offset[step] + plan_size[step] > plan_arena_size[plan_memory[step]]) {
      printf("step %u: misaligned, or outside of its arena\n", (unsigned)step);
      return 1;
    }
    for (r = 0; r < count || r == 0; r++) /* what it has read is still there, or written over by it, as in place */
      if (!is_intact(step) || (r < count && address(inputs[r]) != address(step) && !is_intact(inputs[r]))) {
        printf("step %u (node %s): what it reads is not what was written\n", (unsigned)step, plan_node_name[plan_node[step]]);
        return 1;
      }
  }
  printf("%d steps in %lu bytes: all reads are what was written\n", PLAN_STEPS, (unsigned long)PLAN_ARENA_SIZE);
  return 0;
}
