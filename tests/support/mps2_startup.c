/* Start of a program on a Cortex-M4 of Arm's board MPS2 (AN386), as QEMU has it, with output by semihosting. */
extern int main(void);
extern void initialise_monitor_handles(void);
extern void exit(int status);

void reset(void);
void _init(void);
void _fini(void);

void _init(void) {}
void _fini(void) {}

void reset(void)
{
    initialise_monitor_handles();
    exit(main());
}

/* The end of the stack, and where execution begins. */
__attribute__((section(".vectors"), used)) static void (*const vectors[2])(void) = {(void (*)(void))0x20400000, reset};
