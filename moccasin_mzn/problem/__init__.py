"""Problems and their answers: schedules in one memory, plans on several; their files and their judges."""
